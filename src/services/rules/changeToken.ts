/**
 * Change tokens: a position in the feed, sealed for its reader and its filters, and tied to the history of the ledger.
 *
 * A token is opened before any statement, so a forged one costs none. The resource owner is known only after the statement that
 * checks the grant, so the sealed text has its digest.
 */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import { type ChangeQuery, type ChangeToken, ChangeTokenExpired, InvalidChangeToken } from "../../domain/ChangeFeed.ts"
import type { ClientId, PairwiseSubject } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { TokenCipher } from "../TokenCipher.ts"
import { beforeAllIds, type ChangePlace, type ChangePosition } from "./changePosition.ts"
import type { TokenContext } from "./sealedTokens.ts"

/** What a token says. */
export interface ChangeTokenContent {
  /** The name of the history, without dots. */
  readonly history: string
  /** `ownerDigest`, or empty for the whole ledger. */
  readonly owner: string
  readonly position: ChangePosition
}

/** A token with what it says. */
export interface OpenedToken extends ChangeTokenContent {
  readonly token: ChangeToken
}

const purpose = "change token 1"

/** The reader of the whole ledger. */
export const ledgerReader: TokenContext = [purpose, "ledger"]

/** Who reads the operations of a grant. A new grant of the same client and subject continues with the token of an old one. */
export const grantReader = (
  { client_id, subject }: { readonly client_id: ClientId; readonly subject: PairwiseSubject },
  { states, type }: Pick<ChangeQuery, "states" | "type">
): TokenContext => [purpose, "grant", client_id, subject, [...new Set(states)].toSorted(), type]

const encoder = new TextEncoder()

/** A token of one owner counts changes as seen that another owner has not seen. */
export const ownerDigest = (resourceOwner: string): Effect.Effect<string, never, Digest.Digest> =>
  Effect.map(
    Digest.Digest.use((digest) => digest.digestHex(Digest.sha256, encoder.encode(resourceOwner))),
    (hash) => hash.slice(0, 32)
  )

const placeText = ({ id, position }: ChangePlace): string =>
  id === beforeAllIds ? position.toString(36) : `${position.toString(36)}_${id}`

const placeOf = (text: string): ChangePlace => {
  const [position = "", id = beforeAllIds] = text.split("_")
  // `placeText` has written it: a token that opens is one of ours.
  return { position: Number.parseInt(position, 36), id: id as OperationId }
}

const textOf = ({ history, owner, position }: ChangeTokenContent): string => {
  const places = [position.high, ...position.pending].map(placeText)
  return [history, owner, position.isWhole ? "whole" : "part", ...places].join(".")
}

/** The token of a position. A reader that has not moved gets the token that it came with, and sees that nothing changed. */
export const sealChangeToken = (
  cipher: TokenCipher["Service"],
  content: ChangeTokenContent,
  reader: TokenContext,
  from: OpenedToken | null = null
): Effect.Effect<ChangeToken, StoreUnavailable> => {
  const text = textOf(content)
  if (from !== null && textOf(from) === text) return Effect.succeed(from.token)
  // Only characters of a token.
  return Effect.map(cipher.seal(text, reader), (token) => token as ChangeToken)
}

/**
 * What the token says. Fails with `InvalidChangeToken` if the feed sealed it for another reader or other filters. A token whose key is
 * gone has expired: its reader starts anew.
 */
export const openChangeToken = Effect.fnUntraced(function*(
  cipher: TokenCipher["Service"],
  token: ChangeToken,
  reader: TokenContext
) {
  const text = yield* Effect.catchTag(
    cipher.open(token, reader),
    "TokenRefused",
    ({ reason }) => Effect.fail(reason === "forged" ? new InvalidChangeToken() : new ChangeTokenExpired())
  )
  const [history = "", owner = "", extent, high = "", ...pending] = text.split(".")
  const position = { high: placeOf(high), pending: pending.map(placeOf), isWhole: extent === "whole" }
  return { token, history, owner, position } satisfies OpenedToken
})
