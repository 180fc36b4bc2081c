/**
 * Tells all pages of the process what changed in the ledger.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { makeChangeFollower } from "../../server/waits/ChangeFollower.ts"
import type { OperationFeed } from "../../services/OperationFeed.ts"
import { type ChangeInbox, eventOf, makeChangeInbox, unnamed } from "./ChangeInbox.ts"
import type { ConsoleChanges } from "./ConsoleApi.ts"

/** How often the feed is read. */
const interval = Duration.millis(500)

/** Most pages at once. */
const maxStreams = 32

export class ChangeBroadcast extends Context.Service<ChangeBroadcast, {
  /**
   * The changes from now on. The first event names none. It comes when later changes will not be missed, or when the feed cannot be
   * read. Null: there are too many streams. Closing the scope makes room for another one, and does not end the stream.
   */
  readonly subscribe: Effect.Effect<Stream.Stream<ConsoleChanges> | null, never, Scope.Scope>
}>()("financial-agents-gateway/operator/console/ChangeBroadcast") {
  static readonly layer: Layer.Layer<ChangeBroadcast, never, OperationFeed> = Layer.effect(
    ChangeBroadcast,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function*() {
  const inboxes = new Set<ChangeInbox>()

  const send = (event: ConsoleChanges) => {
    for (const inbox of inboxes) inbox.put(event)
  }

  const follower = yield* makeChangeFollower({
    interval,
    failureMessage: "The console cannot read changes; it tries again",
    onPage: ({ changes }) =>
      Effect.sync(() => {
        if (changes.length === 0) return
        send(eventOf(changes.map(({ operation: { id, revision, state } }) => ({ id, state, revision }))))
      }),
    // Of several failures in a row, the pages read again after the first one: their reads show it.
    onFailure: (isFirst) => {
      if (isFirst) send(unnamed)
    },
    onResume: () => send(unnamed)
  })

  return ChangeBroadcast.of({
    subscribe: Effect.gen(function*() {
      if (inboxes.size >= maxStreams) return null
      const inbox = yield* makeChangeInbox
      const hasTried = yield* Effect.acquireRelease(
        Effect.sync(() => {
          inboxes.add(inbox)
          return follower.enter()
        }),
        () =>
          Effect.sync(() => {
            inboxes.delete(inbox)
            follower.leave()
          })
      )
      return Stream.concat(Stream.fromEffect(Effect.as(hasTried.await, unnamed)), inbox.events)
    })
  })
})
