/**
 * The command line keeps secrets out of the process list, and warns when an argument shows one. The tests run commands
 * and read their arguments as other users of the machine can.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { inject } from "vitest"
import { issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { evidenceOf } from "../../fixtures/OperatorEvidence.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { result, run, urlOf } from "../../fixtures/processes/CommandLine.ts"

const secret = "DE89370400440532013000"
const payload = JSON.stringify({ to: secret })

/** Longest that one of these tests may take, in milliseconds: each runs several processes to their ends. */
const timeout = 300_000

const scene = Effect.gen(function*() {
  const database = yield* createDatabase()
  const url = urlOf(database)
  const env = { DATABASE_URL: url }
  const { grant: { grant_id } } = yield* Effect.provide(
    issue(),
    PostgresServices.pipe(Layer.provide(Layer.fresh(layerFor(database))))
  )
  return { url, env, accept: ["operations", "accept", "--grant", grant_id, "--type", "payment", "--key", "k"] }
}).pipe(Effect.provide(Platform))

interface Accepted {
  readonly created: boolean
  readonly operation: { readonly id: string; readonly created_at: string }
}

/** The warnings of a command, line by line. Fails when the command failed. */
const warnings = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>>, stdin = "") =>
  Effect.map(run(args, env, stdin), ({ code, stderr }) => {
    assert.strictEqual(code, 0, stderr)
    assert.notInclude(stderr, secret)
    return stderr.split("\n").filter((line) => line.startsWith("{")).map((line) =>
      (JSON.parse(line) as { readonly message: string }).message
    )
  })

const argumentsOf = (pid: number) => execFileSync("ps", ["-ww", "-o", "args=", "-p", String(pid)], { encoding: "utf8" })

describe("A payload", () => {
  it.live("given on standard input is accepted, and never shows in the process list", () =>
    Effect.gen(function*() {
      const { accept, env } = yield* scene
      const args = [inject("command"), ...accept, "--payload", "-"]
      const child = spawn(process.execPath, args, { env: { ...process.env, ...env } })
      let [stdout, stderr] = ["", ""]
      child.stdout.on("data", (chunk: Buffer) => stdout += chunk.toString())
      child.stderr.on("data", (chunk: Buffer) => stderr += chunk.toString())
      const closed = once(child, "close")
      // Half of the payload is inside: the command runs, and waits for the rest.
      yield* Effect.promise(() =>
        new Promise<void>((written) => child.stdin.write(payload.slice(0, -2), () => written()))
      )
      const shown = argumentsOf(child.pid ?? 0)
      assert.include(shown, "--payload -")
      assert.notInclude(shown, secret)
      child.stdin.end(payload.slice(-2))
      yield* Effect.promise(() => closed)
      assert.strictEqual(stderr, "")
      const first = JSON.parse(stdout) as Accepted
      assert.isTrue(first.created)
      // The same request: standard input gives the same payload as an argument.
      const again = yield* result<Accepted>([...accept, "--payload", payload], env)
      assert.deepStrictEqual([again.created, again.operation.id], [false, first.operation.id])
    }).pipe(Effect.scoped), timeout)

  it.live(
    "or evidence or a payee, given as an argument, is accepted, with one warning that names standard input",
    () =>
      Effect.gen(function*() {
        const { accept, env } = yield* scene
        assert.deepStrictEqual(yield* warnings([...accept, "--payload", payload], env), [
          "--payload shows its value in the process list: use --payload - and standard input instead"
        ])
        const { operation } = yield* result<Accepted>([...accept, "--payload", payload], env)
        const list = ["operations", "list", "--reason", "a test", "--payee"]
        assert.deepStrictEqual(yield* warnings([...list, secret, "--json"], env), [
          "--payee shows its value in the process list: use --payee - and standard input instead"
        ])
        assert.deepStrictEqual(yield* warnings([...list, "-", "--json"], env, `${secret}\n`), [])
        const advance = ["operations", "advance", operation.id, "--reason", "a test", "--to"]
        const evidence = JSON.stringify({ ...evidenceOf(operation), answer: secret })
        assert.deepStrictEqual(yield* warnings([...advance, "submitting", "--evidence", evidence], env), [
          "--evidence shows its value in the process list: use --evidence - and standard input instead"
        ])
        assert.deepStrictEqual(yield* warnings([...advance, "succeeded", "--evidence", "-"], env, evidence), [])
        const { history } = yield* result<{
          readonly history: ReadonlyArray<{ readonly evidence: { readonly answer: string } | null }>
        }>(["operations", "show", operation.id, "--json"], env)
        assert.deepStrictEqual(history.map(({ evidence }) => evidence?.answer), [undefined, secret, secret])
      }).pipe(Effect.scoped),
    timeout
  )

  it.live("that is not JSON is refused without being repeated", () =>
    Effect.gen(function*() {
      const accept = ["operations", "accept", "--grant", "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"]
      const rest = ["--type", "payment", "--key", "k", "--payload"]
      for (const [given, stdin] of [[payload.slice(1), ""], ["-", payload.slice(1)], ["-", ""]] as const) {
        const { code, stderr } = yield* run([...accept, ...rest, given], {}, stdin)
        assert.strictEqual(code, 1)
        assert.include(stderr, "Expected: one JSON document")
        assert.notInclude(stderr, secret)
      }
    }), timeout)
})

describe("The URL of a database", () => {
  const show = ["operations", "release", "--all", "--reason", "a test"]

  /** The password of the test server, or any password if the server asks for none. */
  const passwordOf = (url: string) => new URL(url).password || secret

  const withPassword = (url: string) => `${url}${url.includes("?") ? "&" : "?"}password=${passwordOf(url)}`

  /** A URL without a host cannot name a user before the host: the query names the user. */
  const inAuthority = (url: string) => {
    const { host, pathname, search, username } = new URL(url)
    return `postgres://${username || "postgres"}:${passwordOf(url)}@${host || "localhost"}${pathname}${search}`
  }

  it.live(
    "with a password as an argument is used, with one warning that names DATABASE_URL",
    () =>
      Effect.gen(function*() {
        const { url } = yield* scene
        const urls = [withPassword(url), inAuthority(url)]
        for (const given of urls) {
          assert.deepStrictEqual(yield* warnings(["--database-url", given, ...show], {}), [
            "--database-url shows a password in the process list: set DATABASE_URL instead"
          ])
        }
      }).pipe(Effect.scoped),
    timeout
  )

  it.live("in the environment, or as an argument without a password, needs no warning", () =>
    Effect.gen(function*() {
      const { url } = yield* scene
      assert.deepStrictEqual(yield* warnings(show, { DATABASE_URL: withPassword(url) }), [])
      if (new URL(url).password !== "") return
      assert.deepStrictEqual(yield* warnings(["--database-url", url, ...show], {}), [])
    }).pipe(Effect.scoped), timeout)

  it.live("that is malformed is refused without being repeated", () =>
    Effect.gen(function*() {
      for (const given of [`postgres://user:${secret}@host:port/name`, `postgres//user:${secret}@host/name`]) {
        const { code, stderr } = yield* run(["--database-url", given, ...show], {})
        assert.strictEqual(code, 1)
        assert.include(stderr, "set DATABASE_URL instead")
        assert.notInclude(stderr, secret)
      }
    }), timeout)
})

describe("The flags of the command line", () => {
  /** Names and settings, which other users of the machine may read. A secret needs another way, and a warning. */
  const open = [
    "admin-host admin-port after all apply approval attempt-timeout bank base-url by clear client color concurrency console control-port data-dir",
    "database demo digest drain-timeout expires-in failed failure-code failure-message fault from grant granted-at held host issuer json key limit",
    "max-connections migrate mutual-tls older-than operator order owner port prefix processes promote-within proofs provider",
    "provider-concurrency provider-limit providers rate-limit reason record reference rescue-after reuse-port reversed sandbox scope seed send-within state subject terminate terms to",
    "type under-review waiting watch webhook-url wide worker-id"
  ].join(" ").split(" ")
  const secrets = ["database-url", "evidence", "limits", "payee", "payload"]

  it("are all in one of the two lists: public values, or secrets with another way", () => {
    const source = fs.globSync("src/cli/**/*.ts").map((file) => fs.readFileSync(file, "utf8")).join("\n")
    const names = [
      ...source.matchAll(
        /(?:Flag\.[A-Z]\w*|\b(?:jsonFlag|listenerPort|optionalText|positive|privateFlag|span|text|textOr|toggle))\(\s*"([a-z-]+)"/g
      )
    ].map((
      [, name]
    ) => name!)
    assert.deepStrictEqual([...new Set(names)].sort(), [...open, ...secrets].sort())
  })
})

describe("The secret of the sandbox's webhooks", () => {
  const sandbox = ["sandbox", "--port", "0", "--control-port", "0", "--webhook-url", "http://127.0.0.1:9/hook"]

  it.live("comes from the environment alone, and is not repeated if it has another form", () =>
    Effect.gen(function*() {
      const missing = yield* run(sandbox, {})
      assert.strictEqual(missing.code, 1)
      assert.include(missing.stderr, "SANDBOX_WEBHOOK_SECRET")
      const invalid = yield* run(sandbox, { SANDBOX_WEBHOOK_SECRET: secret })
      assert.strictEqual(invalid.code, 1)
      assert.notInclude(invalid.stderr, secret)
      const flag = yield* run([...sandbox, "--webhook-secret", secret], {})
      assert.strictEqual(flag.code, 1)
    }), timeout)
})
