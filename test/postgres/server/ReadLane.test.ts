/**
 * The lane of ordinary reads cannot be told from the router on PostgreSQL: with grants of each standing, and operations of
 * each owner and state.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fc from "fast-check"
import { Scope } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import type { OperationFeed } from "../../../src/services/OperationFeed.ts"
import type { OperationStore } from "../../../src/services/OperationStore.ts"
import type { Readiness } from "../../../src/services/Readiness.ts"
import type { TokenCipher } from "../../../src/services/TokenCipher.ts"
import type { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { compare, openBothWays } from "../../fixtures/BothWays.ts"
import { change, unprotect } from "../../fixtures/BrokenRows.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { PostgresServices } from "../../fixtures/HttpGateway.ts"
import { conversations } from "../../fixtures/HttpReads.ts"
import { acceptIn, acceptMany, issue, issueAgain } from "../../fixtures/HttpScene.ts"
import { expiredIn } from "../../fixtures/Ledger.ts"

/** A holder with operations in every state, the grants that may not read them, and other owners. */
const setScene = Effect.gen(function*() {
  const grants = yield* Grants
  const holder = yield* issue()
  const operations = yield* Effect.forEach(
    ["accepted", "submitting", "submitted", "indeterminate", "succeeded", "failed", "cancelled"] as const,
    (state) => acceptIn(holder, state)
  )
  const revoked = yield* issueAgain(holder)
  yield* grants.revoke(revoked.grant.grant_id)
  const expired = yield* issueAgain(holder, { expires_in: expiredIn })
  const unscoped = yield* issueAgain(holder, { scopes: [Scope.make("operations:write")] })
  const inactive = yield* issue()
  yield* grants.setClientActive(inactive.grant.client_id, false)
  const disconnected = yield* issue()
  yield* grants.setProviderConnected(disconnected.grant.provider_connection_id, false)
  const paged = yield* issue()
  const [foreign] = yield* acceptMany(paged, 101)
  yield* unprotect
  const owner = yield* issue()
  const broken = yield* acceptIn(owner, "failed")
  yield* change(broken.id, "failure_code = NULL")
  const holders = [holder, holder, holder, holder, paged, owner, revoked, expired, unscoped, inactive, disconnected]
  return {
    tokens: [
      ...holders.map(({ token }) => token),
      `${holder.token.slice(0, -1)}${holder.token.endsWith("A") ? "B" : "A"}`
    ],
    ids: [...operations.map(({ id }) => id), foreign!.id, broken.id, "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"]
  }
})

layer(PostgresServices, { excludeTestServices: true })("The lane of ordinary reads on PostgreSQL", (it) => {
  it.effect("answers and logs as the router does", () =>
    Effect.gen(function*() {
      const scene = yield* setScene
      const services = yield* Effect.context<OperationStore | OperationFeed | GrantVerifier | Readiness | TokenCipher>()
      const ways = yield* openBothWays(Layer.succeedContext(services))
      const statuses = new Set<number>()
      const property = fc.asyncProperty(conversations(scene), async (conversation) => {
        for (const { status } of (await compare(ways, conversation)).answers) statuses.add(status)
      })
      yield* Effect.promise(() => fc.assert(property, { numRuns: rounds(100, 3000) }))
      // The requests were of several kinds.
      assert.includeMembers([...statuses], [200, 304, 400, 401, 403, 404, 422, 500])
    }))
})
