/**
 * A verification writes for a client before the limits of its running requests count it, so these writes have a limit of their own. The
 * tests hold the writes back.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { Grants } from "../../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import { ProofReplay } from "../../../../src/services/verification/ProofReplay.ts"
import { makeFakeServer } from "../../../fixtures/oauth/FakeServer.ts"
import { forkMany, isOver, judged } from "../../../fixtures/oauth/IntrospectionScene.ts"
import {
  audience,
  credentialOf,
  epoch,
  issuer,
  proofOf,
  provenOf,
  signerOf,
  thumbprintOf,
  tokenOf
} from "../../../fixtures/oauth/Issuing.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"
import { until } from "../../../fixtures/until.ts"

/** A verifier whose writes wait for `gate`. */
const makeScene = Effect.gen(function*() {
  yield* TestClock.setTime(epoch * 1000)
  const signer = yield* signerOf("one")
  const gate = yield* Deferred.make<void>()
  let writes = 0
  const held = <A, E>(write: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      writes++
      return Effect.andThen(Deferred.await(gate), write)
    })
  const grants = Layer.effect(
    Grants,
    Effect.map(Grants, (service) => Grants.of({ ...service, register: (grant) => held(service.register(grant)) }))
  ).pipe(Layer.provide(Grants.layerMemory))
  const replay = Layer.succeed(ProofReplay, ProofReplay.of({ remember: () => held(Effect.succeed(true)) }))
  const context = yield* Layer.build(
    GrantVerifier.layerJwt({ issuer, audience, grantProvisioning: {} }).pipe(
      Layer.provide([grants, replay, Layer.succeed(HttpClient.HttpClient, makeFakeServer([signer.jwk]).client)]),
      Layer.provide([MemoryLedger.layer]),
      Layer.provide(Platform)
    )
  )
  const { verify } = Context.get(context, GrantVerifier)
  const names = { resource_owner: "owner", provider: "bank" }
  return {
    gate,
    writes: () => writes,
    /** Each request brings a DPoP proof of its own. */
    prove: (client_id: string) => (index: number) =>
      Effect.gen(function*() {
        const token = yield* tokenOf(signer, { ...names, client_id, cnf: { jkt: thumbprintOf(signer.jwk) } })
        return yield* judged(verify(provenOf(token, yield* proofOf(signer, token, { jti: `${client_id} ${index}` }))))
      }),
    /** Each request brings the first token of a grant. */
    provision: (client_id: string) => (index: number) =>
      Effect.gen(function*() {
        const token = yield* tokenOf(signer, { ...names, client_id, grant_id: `grant-${index}` })
        return yield* judged(verify(credentialOf(token)))
      })
  }
})

describe("A client", () => {
  for (const kind of ["prove", "provision"] as const) {
    it.effect(`has 128 writes of verifications under way at most, and takes none from others: ${kind}`, () =>
      Effect.gen(function*() {
        const { gate, writes, [kind]: ask } = yield* makeScene
        const requests = yield* forkMany(200, ask("agent-1"))
        yield* until(() => writes() === 128 && requests.filter(isOver).length === 72)
        const other = yield* Effect.forkChild(ask("agent-2")(0))
        yield* until(() => writes() === 129)
        yield* Deferred.succeed(gate, undefined)
        const verdicts = yield* Effect.forEach(requests, Fiber.join)
        assert.lengthOf(verdicts.filter((verdict) => verdict === "StoreUnavailable"), 72)
        assert.lengthOf(verdicts.filter((verdict) => verdict === "accepted"), 128)
        assert.strictEqual(yield* Fiber.join(other), "accepted")
        assert.strictEqual(yield* ask("agent-1")(200), "accepted")
      }))
  }
})
