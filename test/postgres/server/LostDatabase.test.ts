/**
 * While the database cannot be reached, every read is 503, and reads succeed again afterwards. The test cuts the
 * network to PostgreSQL with a proxy.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { Gateway, gatewayOn } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, issue, issueAgain } from "../../fixtures/http/HttpScene.ts"
import { createDatabase, layerFor, Platform, serverAddress } from "../../fixtures/postgres/TestDatabase.ts"
import { proxyTo } from "../../fixtures/processes/Proxy.ts"

describe("An unreachable database", () => {
  it.live("is 503 for every read, and neither 401 nor 500, until it can be reached again", () =>
    Effect.scoped(Effect.gen(function*() {
      const way = yield* proxyTo(serverAddress())
      const { port } = way
      const database = yield* createDatabase()
      const reader = Layer.fresh(layerFor(database, { host: "127.0.0.1", port, maxConnections: 2 }))
      const reads = Layer.mergeAll(OperationStore.layer, OperationFeed.layer, GrantVerifier.layer, Readiness.layer)
        .pipe(
          Layer.provide(reader)
        )
      const scene = Layer.mergeAll(Grants.layer, OperationLedger.layer).pipe(
        Layer.provide(Layer.fresh(layerFor(database, { maxConnections: 1 })))
      )
      const gateway = gatewayOn(reads.pipe(Layer.provide(Platform)))
      yield* Effect.gen(function*() {
        const { send } = yield* Gateway
        const known = yield* issue()
        const { id } = yield* accept(known)
        const unseen = yield* issueAgain(known)
        const target = `/v1/operations/${id}`
        assert.strictEqual((yield* send(target, { token: known.token })).status, 200)

        way.close()
        for (const { token } of [known, unseen]) {
          for (const path of [target, "/v1/operations"]) {
            assertProblemOf(yield* send(path, { token }), "service_unavailable")
          }
        }
        assertProblemOf(yield* send("/readyz"), "not_ready")
        assert.strictEqual((yield* send("/healthz")).status, 200)
        // Requests that need no database still get their own answers.
        assertProblemOf(yield* send(target), "missing_credentials")
        assertProblemOf(yield* send(target, { token: "malformed" }), "invalid_token")

        yield* Effect.promise(() => way.listen(port))
        for (const { token } of [known, unseen]) {
          const answer = yield* Effect.repeat(send(target, { token }), { until: ({ status }) => status !== 503 })
          assert.strictEqual(answer.status, 200)
        }
        assert.strictEqual((yield* send("/readyz")).status, 200)
      }).pipe(Effect.provide(gateway.pipe(Layer.provideMerge(scene), Layer.provideMerge(Platform))))
    })).pipe(Effect.provide(Platform)))
})
