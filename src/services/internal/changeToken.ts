/**
 * Change tokens: a place in the feed as opaque text, tied to the history of the ledger, to its reader and to its filters.
 *
 * A hash over all of it needs no key, because a token confers no authority: a client that forges one sees its own operations only.
 */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"
import { type ChangeQuery, type ChangeToken, InvalidChangeToken } from "../../domain/ChangeFeed.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { beforeAllIds, type ChangePlace, type ChangePosition, maxPending } from "./changePosition.ts"

/** What a token says. */
export interface ChangeTokenContent {
  /** The name of the history, without dots. */
  readonly history: string
  readonly position: ChangePosition
}

/** To what a token is tied, besides the history. */
export type ChangeReader = ReadonlyArray<unknown>

/** The reader of the whole ledger. */
export const ledgerReader: ChangeReader = ["ledger"]

/** Whose operations a grant may see. */
export interface ChangeOwner {
  readonly client_id: string
  readonly subject: string
  readonly resource_owner: string
}

/** The reader of the operations of a grant. A new grant of the same owner continues with the token of an old one. */
export const grantReader = (
  { client_id, resource_owner, subject }: ChangeOwner,
  { states, type }: Pick<ChangeQuery, "states" | "type">
): ChangeReader => ["grant", client_id, subject, resource_owner, [...new Set(states)].toSorted(), type]

const version = "1"

const placeText = ({ id, position }: ChangePlace): string =>
  id === beforeAllIds ? position.toString(36) : `${position.toString(36)}_${id}`

const encoder = new TextEncoder()

/** The token of a place. */
export const encodeChangeToken = (
  { history, position }: ChangeTokenContent,
  reader: ChangeReader
): Effect.Effect<ChangeToken, never, Digest.Digest> => {
  const places = [position.high, ...position.pending].map(placeText)
  const text = [version, history, position.isWhole ? "whole" : "part", ...places].join(".")
  return Effect.map(
    Digest.Digest.use((digest) => digest.digestHex(Digest.sha256, encoder.encode(JSON.stringify([text, ...reader])))),
    // Only characters of a token.
    (hash) => Base64Url.encode(`${text}.${hash.slice(0, 32)}`) as ChangeToken
  )
}

const placePattern = /^(0|[1-9a-z][0-9a-z]{0,10})(?:_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?$/

const placeOf = (text: string): ChangePlace | null => {
  const [, position, id = beforeAllIds] = placePattern.exec(text) ?? []
  const number = Number.parseInt(position ?? "", 36)
  // The pattern has checked the form of the id.
  return Number.isSafeInteger(number) ? { position: number, id: id as OperationId } : null
}

/** A forged token could name one position many times, and each time costs a read. */
const isAscending = (places: ReadonlyArray<ChangePlace>) =>
  places.every(({ position }, n) => n === 0 || places[n - 1]!.position < position)

/** What the token says, if it has the form of one. `checkChangeToken` tells whether a feed issued it, and to whom. */
export const readChangeToken = (token: ChangeToken): Effect.Effect<ChangeTokenContent, InvalidChangeToken> => {
  const [known, history = "", extent, ...rest] = Result.getOrElse(Base64Url.decodeString(token), () => "").split(".")
  const [high, ...pending] = rest.slice(0, -1).map(placeOf)
  const places = pending.filter((place) => place !== null)
  const isWellFormed = known === version && high !== undefined && high !== null && places.length === pending.length
    && places.length <= maxPending && isAscending([...places, high])
  return isWellFormed
    ? Effect.succeed({ history, position: { high, pending: places, isWhole: extent === "whole" } })
    : Effect.fail(new InvalidChangeToken())
}

/** Fails if no feed issued the token with this content, or another reader or other filters use it. */
export const checkChangeToken = (
  token: ChangeToken,
  content: ChangeTokenContent,
  reader: ChangeReader
): Effect.Effect<void, InvalidChangeToken, Digest.Digest> =>
  // Encoded again and compared as a whole, so that each place has exactly one valid token.
  Effect.flatMap(
    encodeChangeToken(content, reader),
    (expected) => expected === token ? Effect.void : Effect.fail(new InvalidChangeToken())
  )

/** What the token of this reader says. */
export const decodeChangeToken = (
  token: ChangeToken,
  reader: ChangeReader
): Effect.Effect<ChangeTokenContent, InvalidChangeToken, Digest.Digest> =>
  Effect.tap(readChangeToken(token), (content) => checkChangeToken(token, content, reader))
