/**
 * `AcceptanceSignal` over LISTEN and NOTIFY.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ProviderName } from "../domain/Grant.ts"
import { AcceptanceSignal } from "../services/AcceptanceSignal.ts"
import { storeFailure } from "../services/StoreUnavailable.ts"

const channel = "financial_agents_gateway_accepted"

const logFailure = (log: Effect.Effect<void>, error: unknown) =>
  Effect.annotateLogs(log, { cause: storeFailure(error) })

const decodeProvider = Schema.decodeUnknownOption(ProviderName)

/**
 * Sends NOTIFY outside of the transaction that accepts, one statement at a time. Inside that transaction it would
 * serialize all commits of the database. A listener holds one connection.
 */
export const layer: Layer.Layer<never, never, PgClient.PgClient> = Layer.effect(
  AcceptanceSignal,
  Effect.gen(function*() {
    const client = yield* PgClient.PgClient
    const pending = new Set<ProviderName>()
    const waiting = Latch.makeUnsafe(false)

    const flush = Effect.suspend(() => {
      const providers = [...pending]
      pending.clear()
      return Effect.forEach(providers, (provider) => client.notify(channel, provider), { discard: true })
    }).pipe(
      Effect.timeout("2 seconds"),
      Effect.catchCause((cause) =>
        logFailure(
          Effect.logDebug("Announcement of acceptances failed: workers find them at their next poll"),
          Cause.squash(cause)
        )
      )
    )

    // A command that accepts and then ends still announces.
    yield* Effect.addFinalizer(() => Effect.timeoutOption(Effect.interruptible(flush), "1 second"))
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.andThen(waiting.await, waiting.close), flush))
    )

    const announced = Stream.unwrap(Effect.map(client.listen(channel), Stream.fromQueue)).pipe(
      Stream.tapError((error) =>
        logFailure(Effect.logWarning("Connection that listens for acceptances lost: reconnecting every second"), error)
      ),
      Stream.retry(Schedule.spaced("1 second")),
      Stream.catch(() => Stream.never),
      Stream.flatMap(({ payload }) => Stream.fromIterable(Option.toArray(decodeProvider(payload))))
    )

    return {
      announce: (provider) =>
        Effect.sync(() => {
          pending.add(provider)
          waiting.openUnsafe()
        }),
      announced
    }
  })
)
