/**
 * The commands of grants, clients and providers change what they name, and nothing else. The tests run the program against the real
 * PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { result } from "../../fixtures/processes/CommandLine.ts"
import { type Env, issue, onDatabase, refused } from "../../fixtures/processes/DatabaseCommands.ts"

interface Shown {
  readonly grant_id: string
  readonly scopes: ReadonlyArray<string>
  readonly expires_at: string
  readonly revoked_at: string | null
}

const names = "grants register --issuer https://as.example --client client --owner owner --provider bank".split(" ")

const registration = (grant: string, subject = "subject") => [...names, "--grant", grant, "--subject", subject]

const register = (env: Env, grant: string, ...more: ReadonlyArray<string>) =>
  result<Shown>([...registration(grant), ...more], env)

describe("The commands of grants", () => {
  it.live("issues a grant with a token that is shown only once, shows the grant, and revokes it permanently", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const issued = yield* issue(
          env,
          "--scope",
          "operations:read",
          "--scope",
          "x:y",
          "--provider",
          "bank",
          "--expires-in",
          "2h"
        )
        assert.sameMembers(Object.keys(issued), [
          "grant_id",
          "client_id",
          "provider_connection_id",
          "access_token",
          "expires_at"
        ])
        assert.match(issued.access_token, /^fingw_[0-9A-Za-z]{49}$/)
        assert.approximately(Date.parse(issued.expires_at), Date.now() + 7_200_000, 600_000)
        const shown = yield* result(["grants", "show", issued.grant_id], env)
        assert.deepInclude(shown, { scopes: ["operations:read", "x:y"], provider: "bank", revoked_at: null })
        assert.notInclude(JSON.stringify(shown), "fingw_")
        const revoked = yield* result(["grants", "revoke", issued.grant_id], env)
        assert.isString(revoked["revoked_at"])
        assert.deepStrictEqual(yield* result(["grants", "revoke", issued.grant_id], env), revoked)
      })
    ))

  it.live("registers grants of an authorization server, and updates them", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const registered = yield* register(env, "first", "--scope", "operations:read", "--expires-in", "2h")
        assert.deepInclude(registered as object, {
          issuer: "https://as.example",
          external_id: "first",
          subject: "subject",
          resource_owner: "owner",
          provider: "bank",
          scopes: ["operations:read"],
          revoked_at: null
        })
        assert.notProperty(registered, "access_token")
        assert.approximately(Date.parse(registered.expires_at), Date.now() + 7_200_000, 600_000)
        assert.deepStrictEqual(yield* result<Shown>(["grants", "show", registered.grant_id], env), registered)
        const again = yield* register(env, "first", "--scope", "x:y")
        assert.deepInclude(again, { grant_id: registered.grant_id, scopes: ["x:y"] })
        assert.include(
          yield* refused(registration("first", "other"), env),
          `the grant ${registered.grant_id} is known with another subject`
        )
      })
    ))

  it.live("revokes by the names of an authorization server, even unseen ones, and reports the number of grants", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const revoke = (...what: ReadonlyArray<string>) => result(["grants", "revoke", ...what], env)
        const client = ["--client", "client"]
        const issuer = ["--issuer", "https://as.example", ...client]
        for (const grant of ["first", "second"]) yield* register(env, grant)
        yield* issue(env)
        assert.deepStrictEqual(yield* revoke(...issuer, "--grant", "first"), { revoked: 1 })
        assert.deepStrictEqual(yield* revoke(...issuer, "--grant", "unseen"), { revoked: 0 })
        assert.isString((yield* register(env, "unseen")).revoked_at)
        assert.deepStrictEqual(yield* revoke(...issuer, "--subject", "subject"), { revoked: 1 })
        assert.deepStrictEqual(yield* revoke(...issuer), { revoked: 0 })
        assert.deepStrictEqual(yield* revoke(...client), { revoked: 1 })
        const young = new Date(Date.now() + 60_000).toISOString()
        assert.isNull((yield* register(env, "young", "--granted-at", young)).revoked_at)
        // The server's own id of a client whose ids have a prefix at the gateway.
        const unknown = ["--issuer", "https://as.example", "--client", "own-id"]
        assert.include(yield* refused(["grants", "revoke", ...unknown], env), "client_prefix")
      })
    ))

  it.live("revokes nothing unless the target is exact", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const { grant_id } = yield* register(env, "first")
        const issuer = ["--issuer", "https://as.example"]
        const client = ["--client", "client"]
        for (
          const what of [
            [],
            [...issuer, "--grant", "first"],
            [...issuer, ...client, "--grant", "first", "--subject", "subject"],
            [grant_id, ...client]
          ]
        ) {
          assert.include(yield* refused(["grants", "revoke", ...what], env), "specify the grants", what.join(" "))
        }
        assert.include(
          yield* refused([...registration("second"), "--granted-at", "yesterday"], env),
          "an RFC 3339 date-time"
        )
        assert.deepInclude(yield* result(["grants", "show", grant_id], env), { revoked_at: null })
      })
    ))

  it.live("deactivates and activates clients, disconnects and connects providers", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const { grant_id, provider_connection_id } = yield* issue(env)
        for (const [command, active] of [["deactivate", false], ["activate", true]] as const) {
          assert.deepStrictEqual(yield* result(["clients", command, "client"], env), { client_id: "client", active })
          assert.deepInclude(yield* result(["grants", "show", grant_id], env), { client_active: active })
        }
        for (const [command, connected] of [["disconnect", false], ["connect", true]] as const) {
          assert.deepStrictEqual(
            yield* result(["providers", command, provider_connection_id], env),
            { provider_connection_id, connected }
          )
          assert.deepInclude(yield* result(["grants", "show", grant_id], env), { provider_connected: connected })
        }
      })
    ))
})
