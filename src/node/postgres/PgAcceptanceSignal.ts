/** `AcceptanceSignal` and `HintSignal` over LISTEN and NOTIFY. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ProviderName } from "../../domain/Grant.ts"
import { storeFailure } from "../../services/StoreUnavailable.ts"
import { AcceptanceSignal, HintSignal } from "../../services/WorkSignals.ts"

const channel = "financial_agents_gateway_accepted"

const logFailure = (log: Effect.Effect<void>, error: unknown) =>
  Effect.annotateLogs(log, { cause: storeFailure(error) })

/** Before the provider of a hint. No name of a provider has a space, so an earlier version ignores the payload. */
const hintPrefix = "hint "

/** An acceptance, or a status read that a hint moved to now. */
interface Announcement {
  readonly provider: ProviderName
  readonly isHint: boolean
}

const decodeProvider = Schema.decodeUnknownOption(ProviderName)

const decode = (payload: string): ReadonlyArray<Announcement> => {
  const isHint = payload.startsWith(hintPrefix)
  const provider = decodeProvider(isHint ? payload.slice(hintPrefix.length) : payload)
  return Option.toArray(Option.map(provider, (provider) => ({ provider, isHint })))
}

/**
 * Sends NOTIFY outside of the transaction that accepts, one statement at a time. Inside that transaction it would
 * serialize all commits of the database. Both signals use one channel, so a process that listens holds one connection.
 */
export const PgAcceptanceSignal: Layer.Layer<never, never, PgClient.PgClient> = Layer.effectContext(
  Effect.gen(function*() {
    const client = yield* PgClient.PgClient
    const pending = new Set<string>()
    const waiting = Latch.makeUnsafe(false)

    const flush = Effect.suspend(() => {
      const payloads = [...pending]
      pending.clear()
      return Effect.forEach(payloads, (payload) => client.notify(channel, payload), { discard: true })
    }).pipe(
      Effect.timeout("2 seconds"),
      Effect.catchCause((cause) =>
        logFailure(
          Effect.logDebug("Announcement failed: workers find the operations at their next poll"),
          Cause.squash(cause)
        )
      )
    )

    // A command that accepts and then ends still announces.
    yield* Effect.addFinalizer(() => Effect.timeoutOption(Effect.interruptible(flush), "1 second"))
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.andThen(waiting.await, waiting.close), flush))
    )

    const listening = Stream.unwrap(Effect.map(client.listen(channel), Stream.fromQueue)).pipe(
      Stream.tapError((error) =>
        logFailure(Effect.logWarning("Connection that listens for acceptances lost: reconnecting every second"), error)
      ),
      Stream.retry(Schedule.spaced("1 second")),
      Stream.catch(() => Stream.never),
      Stream.flatMap(({ payload }) => Stream.fromIterable(decode(payload)))
    )
    // Both consumers of a process share the connection.
    const shared = yield* Stream.share(listening, { capacity: "unbounded" })

    const announce = (payload: string) =>
      Effect.sync(() => {
        pending.add(payload)
        waiting.openUnsafe()
      })
    const announced = (hints: boolean) =>
      shared.pipe(Stream.filter(({ isHint }) => isHint === hints), Stream.map(({ provider }) => provider))

    return Context.make(AcceptanceSignal, { announce, announced: announced(false) }).pipe(
      Context.add(HintSignal, {
        announce: (provider) => announce(`${hintPrefix}${provider}`),
        announced: announced(true)
      })
    )
  })
)
