/**
 * Change tokens: a position in the feed, sealed for its reader and its filters, and tied to the history of the ledger.
 *
 * A token is opened before any statement, so a forged one costs none. The resource owner is known only after the statement that
 * checks the grant, so the sealed text has its digest.
 *
 * A transaction gives its changes a position when it makes them, and commits later, in any order. So "all up to here" is never
 * enough: a reader also keeps the positions below its place that were unfinished, and reads them when they have finished.
 */
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import { type ChangeQuery, type ChangeToken, ChangeTokenExpired, InvalidChangeToken } from "../../domain/ChangeFeed.ts"
import type { ClientId, PairwiseSubject } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { TokenContext } from "../sealedTokens.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { TokenCipher } from "../TokenCipher.ts"

/** A change: the position of its transaction, then the id of the operation. */
export interface ChangePlace {
  readonly position: number
  readonly id: OperationId
}

/** The first id in the order of ids. Every change of a position comes after it. */
export const beforeAllIds = "00000000-0000-0000-0000-000000000000" as OperationId

/** The last id. Every change of a position comes before it. */
export const afterAllIds = "ffffffff-ffff-ffff-ffff-ffffffffffff" as OperationId

/**
 * How far a reader has come. It has seen every change up to `high`, except the later ids of each `pending` position. All of those
 * are below `high`, and in ascending order.
 */
export interface ChangePosition {
  readonly high: ChangePlace
  readonly pending: ReadonlyArray<ChangePlace>
  /**
   * Whether the reader had seen every change that was visible. Otherwise it has passed operations whose next change is still to
   * come.
   */
  readonly isWhole: boolean
}

/** Before every change. */
export const startOfLedger: ChangePosition = { high: { position: 0, id: beforeAllIds }, pending: [], isWhole: true }

/** Which transactions had not finished when the changes were read. */
export interface Unfinished {
  /** The positions of the running transactions, ascending. */
  readonly running: ReadonlyArray<number>
  /** Positions from here on belong to later transactions. */
  readonly upcoming: number
}

/**
 * Most positions that a token keeps: PostgreSQL with its default settings runs fewer transactions. If more are running, the feed
 * waits for the oldest of them.
 */
export const maxPending = 200

interface PageRead {
  /** The last place that the page looked at, in the order of changes. Null: it found nothing new. */
  readonly last: ChangePlace | null
  /** Whether the page has looked at every new change. Otherwise it ends at `last`. */
  readonly isWhole: boolean
  readonly unfinished: Unfinished
}

/** The position after a page that was read from this position. */
export const advance = (from: ChangePosition, page: PageRead): ChangePosition => ({
  ...placesAfter(from, page),
  // Behind the ceiling there may be more.
  isWhole: page.isWhole && page.unfinished.running.length <= maxPending
})

const placesAfter = (
  from: ChangePosition,
  { isWhole, last, unfinished }: PageRead
): Pick<ChangePosition, "high" | "pending"> => {
  const running = new Set(unfinished.running)
  const isUnfinished = ({ position }: ChangePlace) => running.has(position) || position >= unfinished.upcoming
  if (last === null || last.position < from.high.position) {
    const end = isWhole ? from.high.position : last?.position ?? 0
    // The positions behind the end were not read yet, and at the end itself the ids up to `last`.
    const behind = from.pending.filter(({ position }) => position > end)
    const atEnd = isWhole || last === null ? [] : [last]
    return {
      high: from.high,
      pending: [...from.pending.filter((at) => at.position < end && isUnfinished(at)), ...atEnd, ...behind]
    }
  }
  // A page in an older snapshot than that of the token does not show all of the old place.
  const left = last.position > from.high.position ? [...from.pending, from.high] : from.pending
  const passed = unfinished.running.filter((position) => position > from.high.position && position < last.position)
  return {
    high: last,
    pending: [...left.filter(isUnfinished), ...passed.map((position) => ({ position, id: beforeAllIds }))]
  }
}

/**
 * Whether everything that a reader has seen was there when the mark was recorded. Each position below the `high` of the mark was
 * finished then, except its `pending` ones. Those must be pending for the reader, too.
 *
 * A reader between two pages is never covered. It may have passed an operation because of a later change, which it was still to
 * read. If the failover lost that change, the operation would be back behind the reader.
 */
export const isCovered = (
  { high, isWhole, pending }: ChangePosition,
  mark: { readonly high: number; readonly pending: ReadonlyArray<number> }
): boolean => {
  const unseen = new Set(pending.map(({ position }) => position))
  return isWhole && high.position <= mark.high
    && mark.pending.every((position) => position > high.position || unseen.has(position))
}

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
