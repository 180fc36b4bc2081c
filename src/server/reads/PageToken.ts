/**
 * Page tokens: the start of the next page of a list, sealed for its reader and its filters.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import type { OperationCursor, OperationQuery } from "../../domain/OperationQuery.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { TokenCipher } from "../../services/TokenCipher.ts"

/** The reader and the filters that a token is bound to. The page size may change between pages. */
type List = Omit<OperationQuery, "after" | "page_size"> & Pick<GrantIdentity, "client_id" | "subject">

const millis = (instant: DateTime.Utc | null) => instant === null ? null : instant.epochMilliseconds

const contextOf = ({ client_id, created_after, created_before, key, states, subject, type }: List) => [
  "page token 1",
  client_id,
  subject,
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
  list: List
): Effect.Effect<string, StoreUnavailable> => cipher.seal(`${created_at.epochMilliseconds}.${id}`, contextOf(list))

/** The cursor of a token; null if the gateway did not issue the token, or issued it for another reader or other filters. */
export const openPageToken = (
  cipher: TokenCipher["Service"],
  token: string,
  list: List
): Effect.Effect<OperationCursor | null, StoreUnavailable> =>
  Effect.map(cipher.open(token, contextOf(list)), (text) => {
    const [created, id] = text.split(".")
    // `sealPageToken` has written it: a token that opens is one of ours.
    return { created_at: DateTime.makeUnsafe(Number(created)), id: id as OperationId }
  }).pipe(Effect.catchTag("TokenRefused", () => Effect.succeed(null)))
