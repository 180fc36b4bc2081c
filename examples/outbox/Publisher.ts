/**
 * The loop of the outbox: reads a page of changes, delivers all of them, and stores the token of the next page.
 *
 * An operation is once in a page. So different operations are delivered in parallel, and the states of one operation in order.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type ChangeToken, OperationFeed } from "financial-agents-gateway/services/OperationFeed"
import { Delivery } from "./Delivery.ts"
import { type HeldPosition, Position } from "./Position.ts"
import { webhookOf } from "./Webhook.ts"

/** Most changes in a page. After a crash, up to this many are delivered again. */
const pageSize = 100

/** Deliveries at the same time. */
const concurrency = 8

/** Between two reads, if no change was left. */
const pause = "1 second"

const whileUnavailable = {
  schedule: Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("5 seconds")]).pipe(Schedule.jittered),
  while: ({ _tag }: { readonly _tag: string }) => _tag === "StoreUnavailable"
}

/** Publishes for as long as it holds the position. */
const publish = Effect.fnUntraced(function*(position: HeldPosition) {
  const feed = yield* OperationFeed
  const { deliver } = yield* Delivery

  const read = (token: ChangeToken | null) =>
    feed.sinceInLedger(token, pageSize).pipe(
      Effect.catchTag("ChangeTokenExpired", () =>
        Effect.andThen(
          Effect.logWarning("The ledger was restored or failed over: publishing all operations again"),
          feed.sinceInLedger(null, pageSize)
        )),
      Effect.retry(whileUnavailable)
    )

  let token = position.token
  while (true) {
    const { changes, has_more, next } = yield* read(token)
    yield* Effect.forEach(
      changes,
      (change) => Effect.flatMap(webhookOf(change), (webhook) => deliver(webhook, position)),
      { concurrency, discard: true }
    )
    if (next !== token) yield* Effect.retry(position.store(next), whileUnavailable)
    token = next
    if (!has_more) yield* Effect.sleep(pause)
  }
})

/** Takes the position and publishes, and begins anew when the position is lost or the database is away. */
export const publisher = Effect.gen(function*() {
  const { take } = yield* Position
  return yield* Effect.flatMap(take, (position) => Effect.raceFirst(publish(position), position.keep)).pipe(
    Effect.scoped,
    Effect.tapErrorTag("PositionLost", () => Effect.logWarning("The lease was lost, or its end was near")),
    Effect.tapErrorTag("StoreUnavailable", () => Effect.logWarning("The database is unavailable")),
    Effect.retry({
      schedule: Schedule.jittered(Schedule.spaced("1 second")),
      while: ({ _tag }) => _tag === "PositionLost" || _tag === "StoreUnavailable"
    })
  )
})
