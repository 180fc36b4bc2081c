/**
 * The gateway checks the standing of a grant at each read, in the order of the specification. The tests change grants
 * in PostgreSQL while clients read over HTTP.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { type Grant, Scope } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, type Code } from "../../fixtures/http/HttpProblem.ts"
import { accept, issue, issueAgain } from "../../fixtures/http/HttpScene.ts"

const unknown = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

const revoke = ({ grant_id }: Grant) => Grants.use((grants) => grants.revoke(grant_id))
const setActive = ({ client_id }: Grant, active: boolean) =>
  Grants.use((grants) => grants.setClientActive(client_id, active))
const setConnected = ({ provider_connection_id }: Grant, connected: boolean) =>
  Grants.use((grants) => grants.setProviderConnected(provider_connection_id, connected))

/** Flaws of a grant, in the order of the checks. */
const flaws = ["revoked", "expired", "inactive", "unscoped", "disconnected"] as const
type Flaw = (typeof flaws)[number]

const codeOf: Readonly<Record<Flaw, Code>> = {
  revoked: "grant_revoked",
  expired: "grant_revoked",
  inactive: "client_inactive",
  unscoped: "insufficient_scope",
  disconnected: "provider_disconnected"
}

const challengeOf: Readonly<Record<Flaw, RegExp>> = {
  revoked: /^Bearer realm="[^"]+", error="invalid_token", error_description="[^"]+", resource_metadata="[^"]+"$/,
  expired: /^Bearer realm="[^"]+", error="invalid_token", error_description="[^"]+", resource_metadata="[^"]+"$/,
  inactive: /^Bearer realm="[^"]+", error="invalid_token", error_description="[^"]+", resource_metadata="[^"]+"$/,
  unscoped:
    /^Bearer realm="[^"]+", error="insufficient_scope", error_description="[^"]+", scope="operations:read", resource_metadata="[^"]+"$/,
  disconnected:
    /^Bearer realm="[^"]+", error="provider_disconnected", error_description="[^"]+", resource_metadata="[^"]+"$/
}

/** A grant with these flaws, and with an earlier operation. */
const flawed = Effect.fnUntraced(function*(wrong: ReadonlyArray<Flaw>) {
  const before = yield* issue()
  const operation = yield* accept(before)
  const holder = yield* issueAgain(before, {
    ...wrong.includes("unscoped") ? { scopes: [Scope.make("operations:write"), Scope.make("operations:reading")] } : {},
    ...wrong.includes("expired") ? { expires_in: Duration.zero } : {}
  })
  if (wrong.includes("revoked")) yield* revoke(holder.grant)
  if (wrong.includes("inactive")) yield* setActive(holder.grant, false)
  if (wrong.includes("disconnected")) yield* setConnected(holder.grant, false)
  return { holder, operation }
})

layer(postgresGateway({ way: "both" }), { excludeTestServices: true })("The standing of a grant", (it) => {
  it.effect.each(flaws.map((_, at) => flaws.slice(at)))(
    "is checked in the order grant, client, scope, provider: %j",
    (wrong) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { holder: { token }, operation } = yield* flawed(wrong)
        const [first] = wrong
        const reads = ["/v1/operations", `/v1/operations/${operation.id}`, `/v1/operations/${unknown}`, "/v1/limits"]
        for (const target of reads) {
          const answer = yield* send(target, { token })
          const problem = assertProblemOf(answer, codeOf[first!])
          assert.match(answer.headers["www-authenticate"]!, challengeOf[first!])
          if (first === "revoked" || first === "expired") assert.strictEqual(problem.detail, `The grant is ${first}.`)
          if (first === "unscoped") assert.include(problem.detail, "operations:read")
        }
      })
  )

  it.effect("is checked after the shape of the request", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { holder: { token } } = yield* flawed(["revoked"])
      for (const target of ["/v1/operations/not-an-id", "/v1/operations?page_size=0"]) {
        assertProblemOf(yield* send(target, { token }), "invalid_request")
      }
      assertProblemOf(yield* send("/v1/operations?page_token=x", { token }), "invalid_page_token")
    }))

  it.effect("is checked for HEAD and conditional requests too: 401, and no 304", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const target = `/v1/operations/${id}`
      const { headers } = yield* send(target, { token: holder.token })
      const conditional = { token: holder.token, headers: { "if-none-match": headers["etag"]! } }
      assert.strictEqual((yield* send(target, conditional)).status, 304)
      yield* revoke(holder.grant)
      assertProblemOf(yield* send(target, conditional), "grant_revoked")
      assertProblemOf(yield* send(target, { ...conditional, headers: { "if-none-match": "*" } }), "grant_revoked")
      assert.strictEqual((yield* send(target, { ...conditional, method: "HEAD" })).status, 401)
    }))
})
