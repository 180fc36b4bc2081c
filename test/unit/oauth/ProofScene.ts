/** Verifiers of DPoP proofs, and their verdicts on the DPoP proof of one request. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { TestClock } from "effect/testing"
import type { Credential } from "../../../src/domain/Credential.ts"
import { defaultDpopSettings, type DpopSettings, makeDpopProofVerifier } from "../../../src/oauth/DpopProof.ts"
import {
  audience,
  type Changes,
  epoch,
  proofOf,
  provenOf,
  type Signer,
  signerOf,
  thumbprintOf
} from "../../fixtures/oauth/Issuing.ts"

export const token = "the-token"
export const url = `${audience}/v1/operations`

export const makeVerify = (settings: Partial<DpopSettings> = {}) =>
  Effect.provide(makeDpopProofVerifier({ ...defaultDpopSettings, ...settings }), Digest.layerWebCrypto)

/** A signer, and the verdicts of a verifier on texts as its DPoP proofs. */
export const makeScene = Effect.fnUntraced(function*(settings: Partial<DpopSettings> = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const signer = yield* signerOf("agent")
  const verifyCredential = yield* makeVerify(settings)
  const verify = (proof: string) => verifyCredential(provenOf(token, proof), thumbprintOf(signer.jwk))
  return { signer, verify, verdict: (proof: string) => judged(verify(proof)) }
})

interface Request {
  readonly header?: Changes
  readonly credential?: Partial<Credential>
  readonly settings?: Partial<DpopSettings>
  readonly signer?: Signer
}

/** `accepted`, or the reason why the DPoP proof is refused. */
export const verdictOn = Effect.fnUntraced(function*(claims: Changes, request: Request = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const signer = request.signer ?? (yield* signerOf("agent"))
  const proof = yield* proofOf(signer, token, claims, request.header)
  const verify = yield* makeVerify(request.settings)
  return yield* judged(verify(provenOf(token, proof, request.credential), thumbprintOf(signer.jwk)))
})

export const judged = (effect: Effect.Effect<unknown, { readonly _tag: string; readonly reason?: string }>) =>
  Effect.match(effect, { onSuccess: () => "accepted", onFailure: ({ _tag, reason }) => reason ?? _tag })

export const eachVerdict = (name: string, values: ReadonlyArray<unknown>, verdict: string) =>
  Effect.forEach(values, (value) =>
    Effect.map(
      verdictOn({ [name]: value }),
      (actual) => assert.strictEqual(actual, verdict, JSON.stringify(value))
    ))

export const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")
