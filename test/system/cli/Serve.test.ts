/** The command `serve` runs the gateway on a given PostgreSQL. The tests start real processes and read over HTTP. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import * as AdminListener from "../../../src/node/http/AdminListener.ts"
import { getServed } from "../../fixtures/http/fetchServed.ts"
import { listening } from "../../fixtures/http/listening.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, result, run, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

describe.concurrent("serve", () => {
  it.live("migrates the database of DATABASE_URL without a demo, keeps its quota, logs no secret, and needs its port alone", () =>
    Effect.scoped(Effect.gen(function*() {
      const database = yield* createDatabase({ empty: true })
      const env = { DATABASE_URL: urlOf(database), PORT: String(yield* freePort), LOG_LEVEL: "Debug" }
      const server = yield* serve(["--demo", "--rate-limit", "1/d;burst=5"], env)
      const address = `http://127.0.0.1:${env.PORT}`
      assert.deepStrictEqual(yield* getServed(`${address}/readyz`), { status: 200, body: { status: "ok" } })
      assert.include(server.output.stderr, "--demo is ignored")
      const tokenOf = (client: string) =>
        Effect.map(
          result<{ readonly access_token: string }>(
            ["grants", "issue", "--owner", "owner-17", "--subject", "subject-17", "--client", client],
            env
          ),
          ({ access_token }) => access_token
        )
      const token = yield* tokenOf("client")
      const { body, status } = yield* getServed(`${address}/v1/operations`, token)
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body as unknown, { operations: [], next_page_token: null })
      yield* getServed(`${address}/v1/operations?access_token=${token}`, token)

      const authorization = `Bearer ${yield* tokenOf("another")}`
      const read = Effect.promise(async () => {
        const { headers, status } = await fetch(`${address}/v1/operations`, { headers: { authorization } })
        return [status === 429, headers.get("ratelimit-policy")]
      })
      const reads = yield* Effect.replicateEffect(read, 6)
      const told = "\"requests\";q=1;w=86400;fingw-burst=5"
      assert.deepStrictEqual(reads, [1, 2, 3, 4, 5, 6].map((n) => [n === 6, told]))

      const second = yield* run(["serve"], env)
      assert.strictEqual(second.code, 1)
      assert.strictEqual(
        second.stderr.split("\n").findLast((line) => line !== ""),
        `error: cannot listen on 127.0.0.1:${env.PORT}: another process uses the port. Set PORT to a free port`
      )
      assert.strictEqual(yield* server.stop("SIGTERM"), 0)
      assert.strictEqual(server.output.stdout, "")
      for (const line of server.output.stderr.trim().split("\n")) assert.isObject(JSON.parse(line))
      for (const secret of [token, "owner-17", "subject-17"]) assert.notInclude(server.output.stderr, secret)
    })).pipe(Effect.provide(Platform)))

  it.live("refuses a base URL that is no http or https URL, and names its settings", () =>
    Effect.gen(function*() {
      for (const [flags, env] of [[["--base-url", "ftp://x"], {}], [[], { BASE_URL: "ftp://x" }]] as const) {
        const { code, stderr } = yield* run(["serve", ...flags], { ...env, PORT: String(yield* freePort) })
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^error: the base URL \(BASE_URL, --base-url, or the option baseUrl\) must be .*: ftp:\/\/x\n$/
        )
      }
    }))

  it.live("names a port that is taken, and starts no embedded database before", () =>
    Effect.gen(function*() {
      const port = String((yield* listening(net.createServer())).port)
      const dataDir = path.join(yield* temporaryDirectory, "data")
      for (const [prefix, env] of [["", { PORT: port }], ["ADMIN_", { ADMIN_PORT: port }]] as const) {
        const { stderr } = yield* run(["serve", "--data-dir", dataDir], { PORT: String(yield* freePort), ...env })
        assert.strictEqual(
          stderr,
          `error: cannot listen on 127.0.0.1:${port}: another process uses the port. Set ${prefix}PORT to a free port${
            prefix === "" ? "" : " for each process, or give this one --admin-port (of `console`: --port)"
          }\n`
        )
        const own = {
          dataDir,
          port: yield* freePort,
          ...prefix === "" ? { port: Number(port) } : { adminPort: Number(port) }
        }
        const application = GatewayApp.layer({
          ...own,
          baseUrl: "http://127.0.0.1",
          serves: "reads",
          admin: AdminListener.layer()
        })
        const refused = yield* Effect.flip(Layer.build(application as Layer.Layer<never, unknown>))
        assert.include(String((refused as Error).cause), `another process uses the port. Set ${prefix}PORT`)
        assert.isFalse(fs.existsSync(dataDir))
      }
    }).pipe(Effect.scoped))

  it.live("names the flag and the variable of an invalid port, and the rule", () =>
    Effect.gen(function*() {
      for (const port of ["abc", "0", "70000"]) {
        const { code, stderr } = yield* run(["serve"], { PORT: port })
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^error: Invalid value for flag --port: "\w+"\. Expected a port from 1 to 65535, in the flag or in PORT \(see [^\n]+\n$/
        )
      }
    }))

  it.live("does not start with a malformed quota or proxy, and reports it in one line", () =>
    Effect.gen(function*() {
      const env = { DATABASE_URL: "postgres:///x", PORT: String(yield* freePort) }
      const wrong = [
        [{ RATE_LIMIT: "100/w" }, /^error: .*a quota such as 100\/s.*\n$/],
        [{ RATE_LIMIT: "100/s", TRUSTED_PROXIES: "10.0.0.0/33" }, /^error: TRUSTED_PROXIES must be IP addresses.*\n$/],
        [{ TRUSTED_PROXIES: "10.0.0.0/8" }, /^error: .*TRUSTED_PROXIES alone needs RATE_LIMIT\n$/]
      ] as const
      for (const [extra, reason] of wrong) {
        const { code, stderr } = yield* run(["serve", "--no-migrate"], { ...env, ...extra })
        assert.strictEqual(code, 1)
        assert.match(stderr, reason)
      }
    }))
})
