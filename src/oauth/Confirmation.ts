/**
 * Checks that the sender of a sender-constrained token holds its key or certificate (RFC 7800). jose does not check this.
 */
import * as Effect from "effect/Effect"
import { type Credential, InvalidCredential, type InvalidDpopProof, type NonceRequired } from "../domain/Credential.ts"
import type { DpopProofUse, VerifyDpopProof } from "./DpopProof.ts"
import type { VerifiedToken } from "./TokenClaims.ts"

interface ConfirmationSettings {
  /** `required`: every token must be sender-constrained. */
  readonly senderConstrained: "required" | "optional"
  /** Null if DPoP is not supported. Every key-bound token is then invalid. */
  readonly verifyDpopProof: VerifyDpopProof | null
}

/**
 * Confirms the sender of a token. Yields the use of the DPoP proof, which the caller must check for replay after all other
 * checks; null without a DPoP proof.
 */
type Confirm = (
  token: VerifiedToken,
  credential: Credential
) => Effect.Effect<DpopProofUse | null, InvalidCredential | InvalidDpopProof | NonceRequired>

const invalid = Effect.fail(new InvalidCredential())

/**
 * Makes the check of the sender:
 *
 * - A key-bound token needs the scheme `DPoP` and a DPoP proof (RFC 9449 §7.1). As a bearer token it is invalid (§7.2).
 * - A certificate-bound token needs a connection with that certificate (RFC 8705 §3).
 * - A token that is bound to both needs both.
 * - A token that is not key-bound must come without a DPoP proof. Otherwise the client is wrong about its token, or an
 *   attacker removed the confirmation.
 *
 * Thumbprints need no comparison in constant time, because they are digests of public values.
 */
export const makeConfirm = ({ senderConstrained, verifyDpopProof }: ConfirmationSettings): Confirm =>
(
  { confirmation: { jkt, x5t } },
  credential
) => {
  if (x5t !== null && x5t !== credential.certificate) return invalid
  if (jkt !== null) {
    return verifyDpopProof === null || credential.scheme !== "DPoP" ? invalid : verifyDpopProof(credential, jkt)
  }
  if (credential.scheme === "DPoP" || credential.proof !== null) return invalid
  return x5t === null && senderConstrained === "required" ? invalid : Effect.succeed(null)
}
