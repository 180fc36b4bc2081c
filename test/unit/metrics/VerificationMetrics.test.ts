/** Each verification of a credential is counted once, under its outcome. The tests give the gateway a verifier. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import { AuthorizationUnavailable, InvalidCredential } from "../../../src/domain/Credential.ts"
import { verificationLayer } from "../../../src/metrics/HttpMetrics.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import type { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { fixedGateway, fixedId, fixedIdentity, fixedToken } from "../../fixtures/http/HttpFixed.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { counted } from "../../fixtures/metrics/Scrape.ts"

const cause = new Error("no answer")

const outcomes: ReadonlyArray<readonly [string, string, ReturnType<GrantVerifier["Service"]["verify"]>]> = [
  ["a good token", "verified", Effect.succeed(fixedIdentity)],
  ["a bad token", "refused", Effect.fail(new InvalidCredential())],
  ["no answer of the authorization server", "unavailable", Effect.fail(new AuthorizationUnavailable({ cause }))],
  ["no answer of the database", "unavailable", Effect.fail(new StoreUnavailable({ cause }))]
]

describe("The metrics of verifications", () => {
  for (const way of ["plain", "adapter"] as const) {
    it.live.each(outcomes)(`count %s as %s, on the way: ${way}`, ([, outcome, verified]) => {
      const gateway = fixedGateway({ verify: () => verified }, { way }) as Layer.Layer<Gateway>
      const { layer, read } = counted(gateway, verificationLayer)
      return Effect.gen(function*() {
        const { send } = yield* Gateway
        yield* send(`/v1/operations/${fixedId}`, { token: fixedToken })
        // Without a credential there is nothing to verify.
        yield* send(`/v1/operations/${fixedId}`)
        const { total } = yield* read
        assert.strictEqual(total("gateway_verifications_total"), 1)
        assert.strictEqual(total("gateway_verifications_total", { outcome }), 1)
      }).pipe(Effect.provide(layer))
    })
  }
})
