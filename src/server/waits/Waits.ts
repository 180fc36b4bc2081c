/** Reads that wait until their answer meets a condition, or their time is over. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Latch from "effect/Latch"
import * as Semaphore from "effect/Semaphore"
import type { ProblemOf } from "../../api/Problems.ts"
import { noteWait } from "../../metrics/HttpMetrics.ts"
import { CurrentSlot } from "../gate/Admission.ts"
import { makeKeyedSemaphore } from "../gate/KeyedSemaphore.ts"
import { Lifecycle } from "../gate/Lifecycle.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import type { RunningRequest } from "../gate/RunningRequests.ts"
import { ChangeWatcher } from "./ChangeWatcher.ts"
import type { Waiter } from "./Waiters.ts"

/** Reads of woken requests that run at once. One change may wake thousands, and ordinary reads need the pool as well. */
const maxReads = 64

/** The same for one client, so that its waits do not delay those of others. */
const maxReadsPerClient = 16

/** How long a woken request waits for the permits of its read. */
const maxPermitWait = Duration.seconds(10)

interface Wait extends Omit<Waiter, "wake"> {
  /** The longest wait. */
  readonly seconds: number
}

/** What a read returned last. */
interface Awaited<A> {
  readonly answer: A
  /** Whether the wait was honoured, also if the condition held at once. */
  readonly isHonoured: boolean
}

/** Makes the waits. A request has no slot while it waits, and no deadline. Each read has both. */
export const makeWaits = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const watcher = yield* ChangeWatcher
  const problems = yield* Problems
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const reads = Semaphore.makeUnsafe(maxReads)
  const withClientPermit = makeKeyedSemaphore(maxReadsPerClient)

  /** Waits for permits, and reads with a slot. */
  const readWithPermits = <A, E, R>(
    slot: RunningRequest,
    client: string,
    read: Effect.Effect<A, E, R>,
    isSlow: boolean
  ) => {
    const withSlot = reads.withPermit(Effect.suspend(() => {
      lifecycle.resume(slot)
      return read
    }))
    // In this order: a read that waits for others of its client holds no permit of other clients.
    const permitted = isSlow ? lifecycle.admitList(client, withSlot) : withSlot
    return Effect.timeoutOrElse(withClientPermit(client, permitted), {
      duration: maxPermitWait,
      orElse: () => problems.failOverdue
    })
  }

  /**
   * Runs the read until the answer meets the condition, the time is over, or the shutdown begins. The answer is that of the last
   * read, which has checked the grant. If its reads may be slow, a woken request runs `slowReread` with a permit of slow reads.
   */
  const until = <A, E, R>(
    { seconds, ...waiter }: Wait,
    read: Effect.Effect<A, E, R>,
    isMet: (answer: A) => boolean,
    slowReread?: Effect.Effect<A, E, R>
  ): Effect.Effect<Awaited<A>, E | ProblemOf<"service_unavailable">, R> =>
    Effect.withFiber((fiber) => {
      const slot = Context.get(fiber.context, CurrentSlot)
      if (slot === null) return Effect.map(read, (answer) => ({ answer, isHonoured: false }))
      const woken = Latch.makeUnsafe(false)
      const wake = () => void woken.openUnsafe()
      const park = () => {
        if (!lifecycle.park(slot, wake)) return false
        const request = Context.getOrUndefined(fiber.context, HttpServerRequest)
        if (request !== undefined) noteWait(request.source)
        return true
      }
      const end = now() + seconds * 1000
      const notHonoured = (answer: A) => ({ answer, isHonoured: false })
      /** Begins with a read that the watcher precedes. */
      const waitFrom = (first: Effect.Effect<A, E | ProblemOf<"service_unavailable">, R>) =>
        watcher.during(
          { ...waiter, wake },
          Effect.gen(function*() {
            let answer = yield* first
            let isOver = false
            while (!isMet(answer) && !isOver) {
              if (!park()) return notHonoured(answer)
              yield* Effect.timeoutOption(woken.await, Math.max(0, end - now()))
              // Closed before the read: a change during the read wakes it again.
              woken.closeUnsafe()
              isOver = now() >= end || lifecycle.isDraining()
              answer = yield* reread
            }
            return { answer, isHonoured: true }
          })
        )
      const reread = readWithPermits(slot, waiter.grant.client_id, slowReread ?? read, slowReread !== undefined)
      if (watcher.isWatching()) return waitFrom(read)
      // The watcher begins with a statement of its own, which a request that need not wait is spared.
      return Effect.flatMap(read, (answer) => {
        if (isMet(answer)) return Effect.succeed({ answer, isHonoured: true })
        return park() ? waitFrom(reread) : Effect.succeed(notHonoured(answer))
      })
    })

  return { until }
})
