/**
 * The command `serve` runs the gateway on an embedded or a given PostgreSQL. The tests start real processes and read
 * over HTTP.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { isTerminal, type OperationState } from "../../../src/domain/Operation.ts"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, result, run, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const get = (url: string, token?: string) =>
  Effect.promise(async () => {
    const response = await fetchServed(
      url,
      token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
    )
    return { status: response.status, body: await response.json() as Readonly<Record<string, unknown>> }
  })

/** Sends the request of a printed curl line, with the settings that the demo prints above it. */
const asFetch = (greeting: string, line: string) => {
  const [, gateway, token] = /^ {2}export GATEWAY=(\S+) TOKEN=(\S+)$/m.exec(greeting)!
  const [, target] = /^ {2}curl -H "Authorization: Bearer \$TOKEN" \$GATEWAY(\S+)/.exec(line)!
  return get(gateway! + target!, token!)
}

describe.concurrent("serve", () => {
  it.live("runs on an embedded PostgreSQL with a demo that can be read and revoked, and again with another token", () =>
    Effect.scoped(Effect.gen(function*() {
      const env = { DATA_DIR: yield* temporaryDirectory, PORT: String(yield* freePort) }
      const first = yield* serve(["--demo"], env)
      const lines = first.output.stdout.split("\n")
      const [list, read] = lines.filter((line) => line.startsWith("  curl")) as [string, string]
      type Operations = {
        readonly operations: ReadonlyArray<{ readonly state: string; readonly under_review: boolean }>
      }
      const listed = asFetch(first.output.stdout, list).pipe(
        Effect.tap(({ status }) => Effect.sync(() => assert.strictEqual(status, 200))),
        // The cast: other tests check the contract of a list. This test needs only its members.
        Effect.map(({ body }) => (body as unknown as Operations).operations)
      )
      // All operations end without help, except for one that stays uncertain and one that stays pending.
      const settled = yield* listed.pipe(
        Effect.delay("200 millis"),
        Effect.repeat({
          until: (operations) =>
            operations.filter(({ state }) => isTerminal(state as OperationState)).length >= 7
            && operations.some(({ under_review }) => under_review)
        })
      )
      assert.deepStrictEqual(
        settled.map(({ state }) => state).toSorted(),
        [
          "cancelled",
          "failed",
          "failed",
          "indeterminate",
          "submitted",
          "succeeded",
          "succeeded",
          "succeeded",
          "succeeded"
        ]
      )
      const uncertain = yield* asFetch(first.output.stdout, read)
      assert.deepInclude(uncertain.body, { state: "indeterminate", submission_uncertain: true, under_review: true })
      for (const state of ["submitting", "submitted", "succeeded", "failed (insufficient_funds)", "cancelled"]) {
        assert.match(first.output.stdout, new RegExp(`\\s${RegExp.escape(state)}\\n`), "the terminal shows it as well")
      }

      const revoke = /grants revoke \S+/.exec(first.output.stdout)![0].split(" ")
      yield* result(revoke, env)
      const refused = yield* asFetch(first.output.stdout, read)
      assert.strictEqual(refused.status, 401)
      assert.deepInclude(refused.body, { code: "grant_revoked", retryable: false })

      const token = /fingw_\w+/.exec(first.output.stdout)![0]
      assert.notInclude(first.output.stderr, token)
      assert.strictEqual(yield* first.stop("SIGTERM"), 0)

      const second = yield* serve(["--demo"], env)
      const [, readAgain] = second.output.stdout.split("\n").filter((line) => line.startsWith("  curl"))
      assert.notInclude(second.output.stdout, token, "another token")
      assert.strictEqual(
        (yield* asFetch(second.output.stdout, readAgain!)).body["id"],
        uncertain.body["id"],
        "of the same operation"
      )
      assert.strictEqual(yield* second.stop("SIGINT"), 0)
      const pid = path.join(env.DATA_DIR, "pgdata", "postmaster.pid")
      assert.isFalse(fs.existsSync(pid), "PostgreSQL is stopped with the gateway")
    })))

  it.live("migrates the database of DATABASE_URL without a demo, keeps its quota, logs no secret, and needs its port alone", () =>
    Effect.scoped(Effect.gen(function*() {
      const database = yield* createDatabase({ empty: true })
      const env = { DATABASE_URL: urlOf(database), PORT: String(yield* freePort), LOG_LEVEL: "Debug" }
      const server = yield* serve(["--demo", "--rate-limit", "1/d;burst=5"], env)
      const address = `http://127.0.0.1:${env.PORT}`
      assert.deepStrictEqual(yield* get(`${address}/readyz`), { status: 200, body: { status: "ok" } })
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
      const { body, status } = yield* get(`${address}/v1/operations`, token)
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body as unknown, { operations: [], next_page_token: null })
      yield* get(`${address}/v1/operations?access_token=${token}`, token)

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
      const env = { DATABASE_URL: "postgres:///x" }
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
