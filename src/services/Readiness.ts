/** Whether the store can serve reads now. */
import * as Cache from "effect/Cache"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { makeIsMigrated } from "./Migrations.ts"
import { confirmation, sqlState } from "./StoreUnavailable.ts"

/** The store cannot serve reads. The reason is for logs, and names no host and no credential. */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", {
  reason: Schema.Literals(["no_answer", "in_recovery", "migrations_missing", "not_replicated"])
}) {}

/**
 * The state of the server by the error of a statement. A confirmed statement writes, which fails in recovery, and needs a procedure that
 * a migration makes.
 */
const reasons: Readonly<Record<string, NotReady["reason"]>> = {
  "25006": "in_recovery",
  "55000": "in_recovery",
  "42883": "migrations_missing"
}

const reasonOf = (error: SqlError): NotReady["reason"] =>
  error.reason.operation === confirmation ? "not_replicated" : reasons[sqlState(error)] ?? "no_answer"

/** The check of `GET /readyz`. Replace it for a store of your own. */
export class Readiness extends Context.Service<Readiness, {
  readonly check: Effect.Effect<void, NotReady>
}>()("financial-agents-gateway/services/Readiness") {
  /**
   * Checks that the database answers within one second, is the primary, and has every migration. Concurrent probes share one
   * answer, so that many of them cost one statement at a time. Give it connections of its own: on those of the requests, a
   * probe would wait behind the requests.
   */
  static readonly layer: Layer.Layer<Readiness, never, SqlClient.SqlClient | FileSystem.FileSystem | Path.Path> = Layer
    .effect(
      Readiness,
      Effect.gen(function*() {
        const isMigrated = yield* makeIsMigrated
        const sql = yield* SqlClient.SqlClient
        const isInRecovery = Effect.map(
          sql.unsafe<{ readonly in_recovery: boolean }>("SELECT pg_is_in_recovery() AS in_recovery"),
          ([row]) => row!.in_recovery
        )
        const noAnswer = Effect.fail(new NotReady({ reason: "no_answer" }))
        const ask = Effect.gen(function*() {
          if (yield* isInRecovery) return yield* new NotReady({ reason: "in_recovery" })
          if (!(yield* isMigrated)) return yield* new NotReady({ reason: "migrations_missing" })
        }).pipe(
          Effect.timeoutOrElse({ duration: 1000, orElse: () => noAnswer }),
          Effect.catchTag("SqlError", (error) => Effect.fail(new NotReady({ reason: reasonOf(error) })))
        )
        // No answer is kept: the next probe after it asks again.
        const shared = yield* Cache.make({ lookup: () => ask, capacity: 1, timeToLive: 0 })
        return Readiness.of({ check: Cache.get(shared, "probe") })
      })
    )

  /** For stores that are always ready, such as the one in memory. */
  static readonly layerAlways: Layer.Layer<Readiness> = Layer.succeed(Readiness, { check: Effect.void })
}
