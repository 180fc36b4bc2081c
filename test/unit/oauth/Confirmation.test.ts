import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { type Credential, InvalidDpopProof } from "../../../src/domain/Credential.ts"
import { makeConfirm } from "../../../src/oauth/Confirmation.ts"
import type { VerifyDpopProof } from "../../../src/oauth/DpopProof.ts"
import type { Confirmation, VerifiedToken } from "../../../src/oauth/VerifiedToken.ts"
import { credentialOf, provenOf } from "../../fixtures/oauth/Issuing.ts"

const key = "k".repeat(43)
const certificate = "c".repeat(43)

/** Knows one key, and one good proof. */
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

describe("The binding of a token to its sender", () => {
  it.effect("to a key needs the scheme DPoP and a good proof, whose use is yielded", () =>
    each([
      [{ jkt: key }, proven, "accepted with proof-1"],
      [{ jkt: key }, { ...proven, proof: null }, "InvalidDpopProof"],
      [{ jkt: "other" }, proven, "InvalidDpopProof"]
    ]))

  it.effect("to a key is never shown as a bearer token, with a proof or without", () =>
    each([
      [{ jkt: key }, plain, "InvalidCredential"],
      [{ jkt: key }, { ...proven, scheme: "Bearer" }, "InvalidCredential"],
      [{ jkt: key }, certified, "InvalidCredential"]
    ]))

  it.effect("to a certificate needs that certificate, and no other", () =>
    each([
      [{ x5t: certificate }, certified, "accepted"],
      [{ x5t: certificate }, plain, "InvalidCredential"],
      [{ x5t: certificate }, { ...plain, certificate: "other" }, "InvalidCredential"]
    ]))

  it.effect("to both needs both", () =>
    each([
      [{ jkt: key, x5t: certificate }, { ...proven, certificate }, "accepted with proof-1"],
      [{ jkt: key, x5t: certificate }, proven, "InvalidCredential"],
      [{ jkt: key, x5t: certificate }, certified, "InvalidCredential"],
      [{ jkt: key, x5t: certificate }, { ...proven, certificate, proof: null }, "InvalidDpopProof"]
    ]))

  it.effect("to nobody is a bearer token, where that is allowed", () =>
    Effect.andThen(
      each([[{}, plain, "accepted"], [{}, certified, "accepted"]]),
      each([[{}, plain, "InvalidCredential"], [{}, certified, "InvalidCredential"]], { senderConstrained: "required" })
    ))

  it.effect("to anybody is enough where it is required", () =>
    each([
      [{ jkt: key }, proven, "accepted with proof-1"],
      [{ x5t: certificate }, certified, "accepted"]
    ], { senderConstrained: "required" }))

  it.effect("to no key does not go with a proof: whoever sends one means another token", () =>
    each([
      [{}, proven, "InvalidCredential"],
      [{}, { ...proven, proof: null }, "InvalidCredential"],
      [{}, { ...proven, scheme: "Bearer" }, "InvalidCredential"],
      [{ x5t: certificate }, { ...proven, certificate }, "InvalidCredential"]
    ]))

  it.effect("to a key is no good where DPoP is not supported", () =>
    each([[{ jkt: key }, proven, "InvalidCredential"], [{ jkt: key }, plain, "InvalidCredential"]], {
      verifyDpopProof: null
    }))
})
