/**
 * A sender-constrained token is accepted only with the DPoP proof or certificate that it is bound to. Each test lists
 * tokens, credentials and verdicts.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { type Credential, InvalidDpopProof } from "../../../src/domain/Credential.ts"
import type { VerifyDpopProof } from "../../../src/oauth/DpopProof.ts"
import { type Confirmation, makeConfirm, type VerifiedToken } from "../../../src/oauth/TokenClaims.ts"
import { credentialOf, provenOf } from "../../fixtures/oauth/Issuing.ts"

const key = "k".repeat(43)
const certificate = "c".repeat(43)

/** Accepts one DPoP proof of one key. */
const verifyDpopProof: VerifyDpopProof = (credential, jkt) =>
  credential.proof === null || jkt !== key
    ? Effect.fail(new InvalidDpopProof({ reason: "is bad" }))
    : Effect.succeed({ jti: "proof-1", jkt, expires_at: DateTime.makeUnsafe(0) })

const verdictOn = (
  confirmation: Partial<Confirmation>,
  credential: Credential,
  settings: { senderConstrained?: "required" | "optional"; verifyDpopProof?: VerifyDpopProof | null } = {}
) => {
  const confirm = makeConfirm({ senderConstrained: "optional", verifyDpopProof, ...settings })
  const token = { confirmation: { jkt: null, x5t: null, ...confirmation } } as VerifiedToken
  return Effect.match(confirm(token, credential), {
    onSuccess: (use) => use === null ? "accepted" : `accepted with ${use.jti}`,
    onFailure: ({ _tag }) => _tag
  })
}

const plain = credentialOf("t")
const proven = provenOf("t", "p")
const certified = credentialOf("t", { certificate })

const each = (rows: ReadonlyArray<readonly [Partial<Confirmation>, Credential, string]>, settings = {}) =>
  Effect.forEach(rows, ([confirmation, credential, expected], index) =>
    Effect.map(
      verdictOn(confirmation, credential, settings),
      (verdict) => assert.strictEqual(verdict, expected, `row ${index}`)
    ))

describe("An access token", () => {
  it.effect("bound to a key needs the scheme DPoP and a good DPoP proof, whose use is yielded", () =>
    each([
      [{ jkt: key }, proven, "accepted with proof-1"],
      [{ jkt: key }, { ...proven, proof: null }, "InvalidDpopProof"],
      [{ jkt: "other" }, proven, "InvalidDpopProof"]
    ]))

  it.effect("bound to a key is refused as a bearer token, with a DPoP proof or without", () =>
    each([
      [{ jkt: key }, plain, "InvalidCredential"],
      [{ jkt: key }, { ...proven, scheme: "Bearer" }, "InvalidCredential"],
      [{ jkt: key }, certified, "InvalidCredential"]
    ]))

  it.effect("bound to a certificate needs that certificate", () =>
    each([
      [{ x5t: certificate }, certified, "accepted"],
      [{ x5t: certificate }, plain, "InvalidCredential"],
      [{ x5t: certificate }, { ...plain, certificate: "other" }, "InvalidCredential"]
    ]))

  it.effect("bound to both needs both", () =>
    each([
      [{ jkt: key, x5t: certificate }, { ...proven, certificate }, "accepted with proof-1"],
      [{ jkt: key, x5t: certificate }, proven, "InvalidCredential"],
      [{ jkt: key, x5t: certificate }, certified, "InvalidCredential"],
      [{ jkt: key, x5t: certificate }, { ...proven, certificate, proof: null }, "InvalidDpopProof"]
    ]))

  it.effect("without a confirmation is a bearer token, if the settings allow those", () =>
    Effect.andThen(
      each([[{}, plain, "accepted"], [{}, certified, "accepted"]]),
      each([[{}, plain, "InvalidCredential"], [{}, certified, "InvalidCredential"]], { senderConstrained: "required" })
    ))

  it.effect("bound to a key or a certificate is accepted where a confirmation is required", () =>
    each([
      [{ jkt: key }, proven, "accepted with proof-1"],
      [{ x5t: certificate }, certified, "accepted"]
    ], { senderConstrained: "required" }))

  it.effect("bound to no key is refused with a DPoP proof, which belongs to another token", () =>
    each([
      [{}, proven, "InvalidCredential"],
      [{}, { ...proven, proof: null }, "InvalidCredential"],
      [{}, { ...proven, scheme: "Bearer" }, "InvalidCredential"],
      [{ x5t: certificate }, { ...proven, certificate }, "InvalidCredential"]
    ]))

  it.effect("bound to a key is refused where DPoP is not supported", () =>
    each([[{ jkt: key }, proven, "InvalidCredential"], [{ jkt: key }, plain, "InvalidCredential"]], {
      verifyDpopProof: null
    }))
})
