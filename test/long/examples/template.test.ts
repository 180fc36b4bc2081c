/**
 * The application of the template with a database of DATABASE_URL: its fake bank moves no money, so it must not run there. Without the
 * folder of the fake bank it runs nowhere. The tests run it as processes.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, launchOf, run, runOf, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const providers = "template/src/Providers.ts"
const main = "template/src/main.ts"

/** The settings of a process on a database of its own. */
const settings = Effect.gen(function*() {
  return {
    DATABASE_URL: urlOf(yield* createDatabase()),
    PORT: String(yield* freePort),
    FAKE_BANK_PORT: String(yield* freePort),
    NODE_OPTIONS: "--conditions=gateway-source"
  }
})

const refusal =
  "error: set BANK_URL and BANK_KEY beside DATABASE_URL: the fake bank runs only with the embedded PostgreSQL\n"

/** The template once its user deletes the folder of the fake bank. In this clone, so that it finds the package by its name. */
const withoutFakeBank = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.mkdtempSync(path.resolve(".guides-"))
    fs.cpSync("template", folder, { recursive: true })
    fs.rmSync(path.join(folder, "fakeBank"), { recursive: true })
    return folder
  }),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true }))
)

describe("The application of the template, without the folder of the fake bank", () => {
  it.live("refuses to start without BANK_URL and BANK_KEY, also with the embedded PostgreSQL", () =>
    Effect.gen(function*() {
      const { DATABASE_URL: _, ...env } = yield* settings
      const program = path.join(yield* withoutFakeBank, "src/main.ts")
      const { code, stderr } = yield* runOf(program, [], {
        ...env,
        DATA_DIR: path.join(yield* temporaryDirectory, "data")
      })
      assert.strictEqual(code, 1)
      assert.include(stderr, "error: set BANK_URL and BANK_KEY: there is no fake bank\n")
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("The application of the template, with a bank at BANK_URL", () => {
  it.live("prints no token, also with the embedded PostgreSQL: it may pay real money", () =>
    Effect.gen(function*() {
      const { DATABASE_URL: _, ...env } = yield* settings
      const { output, stop } = yield* launchOf(
        main,
        [],
        {
          ...env,
          DATA_DIR: path.join(yield* temporaryDirectory, "data"),
          BANK_URL: "http://127.0.0.1:1",
          BANK_KEY: "key"
        },
        ({ stderr }) => stderr.includes("\"Listening\"")
      )
      yield* Effect.promise(() => fetchServed(`http://127.0.0.1:${env.PORT}/readyz`))
      assert.deepStrictEqual([yield* stop("SIGTERM"), output.stdout], [0, ""])
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("The application of the template, with a database of DATABASE_URL", () => {
  it.live("refuses to start without BANK_URL or BANK_KEY, and takes an empty text for a missing one", () =>
    Effect.gen(function*() {
      const env = yield* settings
      for (
        const bank of [
          { BANK_URL: "", BANK_KEY: "key" },
          { BANK_URL: "http://127.0.0.1:1", BANK_KEY: " " }
        ]
      ) {
        const { code, stderr } = yield* run(["work", "--providers", providers], { ...env, ...bank })
        assert.strictEqual(code, 1)
        assert.include(stderr, refusal)
      }
      const { code, stderr } = yield* runOf(main, [], env)
      assert.strictEqual(code, 1)
      assert.include(stderr, refusal)
      assert.notInclude(stderr, "Listening")
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("names BANK_URL and the remedy if it is no address", () =>
    Effect.gen(function*() {
      const env = { ...yield* settings, BANK_KEY: "key" }
      const noUrl = "BANK_URL must be a URL such as https://api.bank.example, without user or query"
      const noTls = "BANK_URL must begin with https: otherwise the network could read the credentials"
      const worker = yield* run(["work", "--providers", providers], { ...env, BANK_URL: "http://bank.example" })
      const server = yield* runOf(main, [], { ...env, BANK_URL: "foo" })
      assert.deepStrictEqual([worker.code, server.code], [1, 1])
      assert.include(worker.stderr, noTls)
      assert.include(server.stderr, noUrl)
      assert.notInclude(server.stderr, "Listening")
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("starts with both, and names the bank, also without the folder of the fake bank", () =>
    Effect.gen(function*() {
      const bank = { BANK_URL: "http://127.0.0.1:1", BANK_KEY: "key" }
      const env = { ...yield* settings, ...bank }
      for (const program of [main, path.join(yield* withoutFakeBank, "src/main.ts")]) {
        const { output, stop } = yield* launchOf(program, [], env, ({ stderr }) => stderr.includes("\"Listening\""))
        assert.include(output.stderr, `"Bank: ${bank.BANK_URL}"`)
        yield* stop("SIGTERM")
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
