/**
 * The image of `deploy/Containerfile` serves as an ordinary user, is healthy, and stops on SIGTERM. The tests carry out the steps of
 * the file in a folder, and run its entry point there, on the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll, inject } from "vitest"
import { buildImage, type Image } from "../../fixtures/package/Containerfile.ts"
import { timeout } from "../../fixtures/package/Release.ts"
import { createDatabase, serverAddress } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { proxyTo } from "../../fixtures/processes/Proxy.ts"

/** An ordinary user for the program, if the tests run as root. */
const ordinaryUser = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}

/** The URL of a database through TCP. PostgreSQL may listen only in a folder that no other user may enter. */
const relayed = (database: string) =>
  Effect.gen(function*() {
    const { host, password, username } = inject("postgres")
    if (!host.startsWith("/")) return urlOf(database)
    const { port } = yield* proxyTo(serverAddress())
    const credentials = password === undefined ? username : `${username}:${encodeURIComponent(password)}`
    return `postgres://${credentials}@127.0.0.1:${port}/${database}`
  })

describe("The base of the container", () => {
  it("is the same image in each stage and in the template: the Node of the lock file, by its digest", () => {
    const { devDependencies } = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
      readonly devDependencies: Readonly<Record<string, string>>
    }
    const bases = ["deploy/Containerfile", "template/Containerfile"].flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(/^FROM (\S+)/gm)].map(([, base]) => base!)
    )
    assert.lengthOf(bases, 3)
    assert.strictEqual(new Set(bases).size, 1)
    assert.match(bases[0]!, /^node:[\d.]+-bookworm-slim@sha256:[0-9a-f]{64}$/)
    assert.include(bases[0]!, `node:${devDependencies["node"]}-`)
  })
})

describe("The container", () => {
  let temporary = ""
  let image: Image

  beforeAll(async () => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "container-"))
    image = await buildImage(temporary)
    // A temporary directory is private to its user.
    fs.chmodSync(temporary, 0o755)
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  /** A command of the image. Absolute paths in it are those of the container. */
  const inImage = ([, ...args]: ReadonlyArray<string>) =>
    args.map((arg) => arg.startsWith("/app/") ? image.root + arg : arg)

  it("holds no packages and runs as an ordinary user", () => {
    assert.deepStrictEqual(fs.readdirSync(image.root), ["app"])
    assert.sameMembers(fs.readdirSync(path.join(image.root, "app")), [
      "LICENSE",
      "dist",
      "migrations",
      "package.json",
      "template"
    ])
    assert.strictEqual(image.user, "node")
    assert.deepStrictEqual([image.entrypoint[0], image.healthcheck[0]], ["node", "node"])
  })

  it.effect(
    "migrates an empty database, becomes healthy, serves its pages, writes no file, and exits with 0 on SIGTERM",
    () =>
      Effect.gen(function*() {
        const port = yield* freePort
        const filesBefore = fs.readdirSync(image.root, { recursive: true })
        const env = {
          ...image.environment,
          PORT: String(port),
          BASE_URL: "https://gateway.example",
          DATABASE_URL: yield* relayed(yield* createDatabase({ empty: true }))
        }
        const options = { cwd: path.join(image.root, "app"), env, ...ordinaryUser }
        const program = spawn(process.execPath, inImage([...image.entrypoint, ...image.command]), options)
        yield* Effect.addFinalizer(() => Effect.sync(() => program.kill("SIGKILL")))
        const exited = once(program, "exit") as Promise<[number | null]>
        let output = ""
        program.stdout.resume()
        program.stderr.setEncoding("utf8").on("data", (chunk: string) => output += chunk)
        yield* Effect.promise(() =>
          Promise.race([
            exited.then(() => Promise.reject(new Error(output))),
            new Promise<void>((resolve) =>
              program.stderr.on("data", () => output.includes("\"Listening\"") && resolve())
            )
          ])
        )
        const health = () =>
          new Promise<"healthy" | Error>((resolve) => {
            execFile(process.execPath, inImage(image.healthcheck), { env }, (error) => resolve(error ?? "healthy"))
          })
        // The error has what the check printed.
        const checked = yield* Effect.promise(health)
        assert.strictEqual(checked, "healthy", `${String(checked)}\n${output}`)
        const base = `http://127.0.0.1:${port}`
        for (const place of ["/readyz", "/openapi.json", "/problems"]) {
          assert.strictEqual((yield* Effect.promise(() => fetch(base + place))).status, 200, place)
        }
        const page = yield* Effect.promise(() => fetch(`${base}/docs`).then((response) => response.text()))
        assert.include(page, "@scalar/api-reference")
        program.kill("SIGTERM")
        assert.deepStrictEqual((yield* Effect.promise(() => exited))[0], 0, output)
        assert.instanceOf(yield* Effect.promise(health), Error, "a stopped gateway is not healthy")
        assert.deepStrictEqual(fs.readdirSync(image.root, { recursive: true }), filesBefore, "--read-only is possible")
      }),
    timeout
  )
})
