/**
 * Page tokens: the start of the next page of a list, as opaque text.
 *
 * A token carries the sort values of the last operation of a page, and a hash over them and the filters of the list.
 * The hash needs no key, because a token confers no authority: a client that forges one sees only its own operations.
 */
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"
import { isOperationId } from "../domain/Operation.ts"
import type { OperationCursor, OperationQuery } from "../domain/OperationQuery.ts"

/** The filters that a token is tied to. The page size may change between pages. */
type Filters = Omit<OperationQuery, "after" | "page_size">

const encoder = new TextEncoder()

const placeOf = (cursor: OperationCursor) => `1.${cursor.created_at.epochMilliseconds}.${cursor.id}`

const millis = (instant: DateTime.Utc | null) => instant === null ? null : instant.epochMilliseconds

const seal = (place: string, filters: Filters): Effect.Effect<string, never, Digest.Digest> => {
  const text = JSON.stringify([
    place,
    filters.states.toSorted(),
    filters.type,
    millis(filters.created_after),
    millis(filters.created_before),
    filters.key
  ])
  return Effect.map(
    Digest.Digest.use((digest) => digest.digestHex(Digest.sha256, encoder.encode(text))),
    (hash) => Base64Url.encode(`${place}.${hash.slice(0, 32)}`)
  )
}

/** The token of the page that begins after the cursor. */
export const encodePageToken = (
  cursor: OperationCursor,
  filters: Filters
): Effect.Effect<string, never, Digest.Digest> => seal(placeOf(cursor), filters)

/** The cursor of a token; null if the gateway did not issue the token, or issued it for other filters. */
export const decodePageToken = (
  token: string,
  filters: Filters
): Effect.Effect<OperationCursor | null, never, Digest.Digest> => {
  const text = Result.getOrElse(Base64Url.decodeString(token), () => "")
  const [version, created, id] = text.split(".")
  if (version !== "1" || created === undefined || !/^\d{1,15}$/.test(created) || !isOperationId(id)) {
    return Effect.succeed(null)
  }
  const cursor = { created_at: DateTime.makeUnsafe(Number(created)), id }
  // Encoded again and compared as a whole, so that each cursor has exactly one valid token.
  return Effect.map(encodePageToken(cursor, filters), (expected) => expected === token ? cursor : null)
}
