/**
 * The room `waits`: reads that answer later, and the loop that follows the changes for them. Read this file first.
 *
 * The reads that a client may make wait with `Prefer: wait` (RFC 7240 §4.3): one operation, and the change feed.
 */
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type { ChangesQuery } from "../../api/OperationsApi.ts"
import type { RunSlowRead } from "../../domain/ChangeFeed.ts"
import type { EncodedOperation } from "../../domain/EncodedOperation.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { makeChangeReads } from "../reads/ChangeReads.ts"
import { makeOperationReads } from "../reads/OperationReads.ts"
import { changesResponse, isHeld, type OperationResponse } from "../reads/OperationResponses.ts"
import { readWait } from "./Preferences.ts"
import { topicOfOperation, topicOfOwner } from "./Waiters.ts"
import { makeWaits } from "./Waits.ts"

/** Says that the wait was honoured (RFC 7240 §3). */
const withWait = (response: OperationResponse, seconds: number): OperationResponse => ({
  ...response,
  headers: { ...response.headers, "preference-applied": `wait=${seconds}` }
})

/** Whether an operation passes the filters: other changes of the owner need not wake the request. */
const matches = ({ state = [], type }: ChangesQuery) => (operation: Operation): boolean =>
  (state.length === 0 || state.includes(operation.state)) && (type === undefined || type === operation.type)

/** The headers of a read by id. */
interface ReadHeaders {
  readonly "if-none-match"?: string
  readonly prefer?: string
}

/** Makes the reads. Without a wait they answer at once. They fail with problems of the current request. */
export const makeWaitingReads = Effect.gen(function*() {
  const operations = yield* makeOperationReads
  const feed = yield* makeChangeReads
  const waits = yield* makeWaits

  return {
    /** Waits until the entity tag is none of the client's, and without tags until the operation is terminal. */
    get: (grant: GrantIdentity, id: OperationId, { "if-none-match": ifNoneMatch, prefer }: ReadHeaders) => {
      const seconds = readWait(prefer)
      if (seconds === null) return operations.get(grant, id, ifNoneMatch)
      const isMet = (operation: EncodedOperation) =>
        ifNoneMatch === undefined ? operation.terminal : !isHeld(operation, ifNoneMatch)
      return Effect.flatMap(
        waits.until(
          { grant, seconds, topic: topicOfOperation(id) },
          Effect.suspend(() => operations.find(grant, id)),
          isMet
        ),
        ({ answer, isHonoured }) =>
          Effect.map(
            operations.respond(answer, ifNoneMatch),
            (response) => isHonoured ? withWait(response, seconds) : response
          )
      )
    },

    /** Waits until a page has changes, or more pages follow. */
    changes: (grant: GrantIdentity, query: ChangesQuery, prefer: string | undefined) => {
      const seconds = readWait(prefer)
      if (seconds === null) return Effect.map(feed.read(grant, query), changesResponse)
      let after = query.after
      const read = (runSlow?: RunSlowRead) =>
        Effect.map(
          Effect.suspend(() => feed.read(grant, after === undefined ? query : { ...query, after }, runSlow)),
          (page) => {
            // Nothing of an empty page is lost, so the next read need not look at it again.
            if (page.count === 0) after = page.next
            return page
          }
        )
      return Effect.map(
        waits.until(
          { grant, seconds, topic: topicOfOwner(grant), concerns: matches(query) },
          read(),
          (page) => page.count > 0 || page.has_more,
          read(identity)
        ),
        ({ answer, isHonoured }) => isHonoured ? withWait(changesResponse(answer), seconds) : changesResponse(answer)
      )
    }
  }
})
