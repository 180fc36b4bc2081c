/**
 * The room `server/waits`: reads that answer later, and the loop that follows the changes for them. Read this file first.
 *
 * The reads that a client may make wait with `Prefer: wait` (RFC 7240 §4.3): one operation, and the change feed.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type { ChangesQuery } from "../../api/OperationsApi.ts"
import type { RunSlowRead } from "../../domain/ChangeFeed.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { makeInstant } from "../../domain/Timestamp.ts"
import { makeOperationReads } from "../reads/OperationReads.ts"
import { changesResponse, isHeld, readResponse } from "../reads/OperationResponses.ts"
import { readWait } from "./Preferences.ts"
import { topicOfOperation, topicOfOwner } from "./Waiters.ts"
import { makeWaits } from "./Waits.ts"

/** Whether an operation passes the filters: other changes of the owner need not wake the request. */
const matches = ({ state = [], type }: ChangesQuery) => (operation: Operation): boolean =>
  (state.length === 0 || state.includes(operation.state)) && (type === undefined || type === operation.type)

const notAwaited = <A>(answer: A) => ({ answer, isHonoured: false })

interface ReadHeaders {
  readonly "if-none-match"?: string
  readonly prefer?: string
}

/** Makes the reads. Without a wait they answer at once. They fail with problems of the current request. */
export const makeWaitingReads = Effect.gen(function*() {
  const operations = yield* makeOperationReads
  const waits = yield* makeWaits

  return {
    /** Waits until the entity tag is none of the client's, and without tags until the operation is terminal. */
    get: (grant: GrantIdentity, id: OperationId, { "if-none-match": ifNoneMatch, prefer }: ReadHeaders) => {
      const seconds = readWait(prefer)
      const respond = (operation: Operation, waited: number | null) => {
        const held = isHeld(operation, ifNoneMatch)
        const response = Effect.map(
          Clock.currentTimeMillis,
          (now) => readResponse(operation, { held, now: makeInstant(now), waited })
        )
        return held ? Effect.andThen(operations.check(operation), response) : response
      }
      if (seconds === null) return Effect.flatMap(operations.find(grant, id), (found) => respond(found, null))
      const isMet = (operation: Operation) =>
        ifNoneMatch === undefined ? operation.terminal : !isHeld(operation, ifNoneMatch)
      return Effect.flatMap(
        waits.until(
          { grant, seconds, topic: topicOfOperation(id) },
          Effect.suspend(() => operations.find(grant, id)),
          isMet
        ),
        ({ answer, isHonoured }) => respond(answer, isHonoured ? seconds : null)
      )
    },

    /** Waits until a page has changes, or more pages follow. */
    changes: (grant: GrantIdentity, query: ChangesQuery, prefer: string | undefined) => {
      const seconds = readWait(prefer)
      let after = query.after
      const read = (runSlow?: RunSlowRead) =>
        Effect.map(
          Effect.suspend(() => operations.changes(grant, after === undefined ? query : { ...query, after }, runSlow)),
          (page) => {
            // Nothing of an empty page is lost, so the next read need not look at it again.
            if (page.operations.length === 0) after = page.next_change_token
            return page
          }
        )
      const found = seconds === null
        ? Effect.map(read(), notAwaited)
        : waits.until(
          { grant, seconds, topic: topicOfOwner(grant), concerns: matches(query) },
          read(),
          (page) => page.operations.length > 0 || page.has_more,
          read(identity)
        )
      return Effect.map(found, ({ answer, isHonoured }) => changesResponse(answer, isHonoured ? seconds : null))
    }
  }
})
