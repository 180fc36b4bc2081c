/**
 * Whether a token is in the hands of whom it was issued to (RFC 7800): jose and most libraries leave this to others.
 */
import * as Effect from "effect/Effect"
import { type Credential, InvalidCredential, type InvalidDpopProof, type NonceRequired } from "../domain/Credential.ts"
import type { DpopProofUse, VerifyDpopProof } from "./DpopProof.ts"
import type { VerifiedToken } from "./VerifiedToken.ts"

export interface ConfirmationSettings {
  /** Whether every token must be bound to its sender. */
  readonly senderConstrained: "required" | "optional"
  /** Null where DPoP is not supported: no token that is bound to a key is good then. */
  readonly verifyProof: VerifyDpopProof | null
}

/** Yields the use of the proof that still has to be the first (last of all checks); null where there is no proof. */
export type Confirm = (
  token: VerifiedToken,
  credential: Credential
) => Effect.Effect<DpopProofUse | null, InvalidCredential | InvalidDpopProof | NonceRequired>

const invalid = Effect.fail(new InvalidCredential())

/**
 * A token that is bound to a key comes with a proof, under the scheme `DPoP` (RFC 9449 §7.1), and never as a bearer token
 * (§7.2); one that is bound to a certificate comes over a connection with it (RFC 8705 §3); one that is bound to both
 * needs both. A token that is not bound to a key comes without a proof: its sender is mistaken about it, or somebody
 * took the binding away.
 *
 * Thumbprints are compared as they are: they are digests of what is public, there is nothing to learn from the time.
 */
export const makeConfirm = ({ senderConstrained, verifyProof }: ConfirmationSettings): Confirm =>
(
  { confirmation: { jkt, x5t } },
  credential
) => {
  if (x5t !== null && x5t !== credential.certificate) return invalid
  if (jkt !== null) {
    return verifyProof === null || credential.scheme !== "DPoP" ? invalid : verifyProof(credential, jkt)
  }
  if (credential.scheme === "DPoP" || credential.proof !== null) return invalid
  return x5t === null && senderConstrained === "required" ? invalid : Effect.succeed(null)
}
