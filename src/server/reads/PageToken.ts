/**
 * Page tokens: the start of the next page of a list, sealed for its filters. A token confers no authority: another reader sees its own
 * operations from there on.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { OperationId } from "../../domain/Operation.ts"
import type { OperationCursor, OperationQuery } from "../../domain/OperationQuery.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { TokenCipher } from "../../services/TokenCipher.ts"

/** The filters that a token is bound to. The page size may change between pages. */
type Filters = Omit<OperationQuery, "after" | "page_size">

const millis = (instant: DateTime.Utc | null) => instant === null ? null : instant.epochMilliseconds

const contextOf = ({ created_after, created_before, key, states, type }: Filters) => [
  "page token 1",
  states.toSorted(),
  type,
  millis(created_after),
  millis(created_before),
  key
]

/** The token of the page that begins after the cursor. */
export const sealPageToken = (
  cipher: TokenCipher["Service"],
  { created_at, id }: OperationCursor,
  filters: Filters
): Effect.Effect<string, StoreUnavailable> => cipher.seal(`${created_at.epochMilliseconds}.${id}`, contextOf(filters))

/** The cursor of a token; null if the gateway did not issue the token, or issued it for other filters. */
export const openPageToken = (
  cipher: TokenCipher["Service"],
  token: string,
  filters: Filters
): Effect.Effect<OperationCursor | null, StoreUnavailable> =>
  Effect.map(cipher.open(token, contextOf(filters)), (text) => {
    const [created, id] = text.split(".")
    // `sealPageToken` has written it: a token that opens is one of ours.
    return { created_at: DateTime.makeUnsafe(Number(created)), id: id as OperationId }
  }).pipe(Effect.catchTag("TokenRefused", () => Effect.succeed(null)))
