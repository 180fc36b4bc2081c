/** `serve` has the quota and the proxies of its flags or the environment. The tests start real processes. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, result, run, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"

describe("serve", () => {
  it.live("applies the quota of a flag or the environment", () =>
    Effect.scoped(Effect.gen(function*() {
      const database = yield* createDatabase()
      const port = yield* freePort
      const env = { DATABASE_URL: urlOf(database), PORT: String(port) }
      const { access_token } = yield* result<{ readonly access_token: string }>(
        ["grants", "issue", "--owner", "owner", "--subject", "subject", "--client", "client"],
        env
      )
      yield* serve(["--rate-limit", "1/d;burst=2"], env)
      const read = Effect.promise(async () => {
        const { headers, status } = await fetch(`http://127.0.0.1:${port}/v1/operations`, {
          headers: { authorization: `Bearer ${access_token}` }
        })
        return [status, headers.get("ratelimit-policy")]
      })
      const told = "\"requests\";q=1;w=86400;fingw-burst=2"
      assert.deepStrictEqual(yield* Effect.all([read, read, read]), [[200, told], [200, told], [429, told]])
    })).pipe(Effect.provide(Platform)))

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
