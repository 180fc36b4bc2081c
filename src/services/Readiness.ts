/**
 * Whether the store can serve reads now.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import { makeIsMigrated } from "./Migrations.ts"

/** The store cannot serve reads. The reason is for logs; it names no host and no credential. */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", {
  reason: Schema.Literals(["no_answer", "migrations_missing"])
}) {}

/** What `GET /readyz` asks. Replace it when a store of your own has other needs. */
export class Readiness extends Context.Service<Readiness, {
  readonly check: Effect.Effect<void, NotReady>
}>()("financial-agents-gateway/services/Readiness") {
  /** The database answers within one second, and has every migration. */
  static readonly layer: Layer.Layer<Readiness, never, SqlClient.SqlClient | FileSystem.FileSystem | Path.Path> = Layer
    .effect(
      Readiness,
      Effect.map(makeIsMigrated, (isMigrated) => {
        const noAnswer = Effect.fail(new NotReady({ reason: "no_answer" }))
        return Readiness.of({
          check: isMigrated.pipe(
            Effect.timeoutOrElse({ duration: 1000, orElse: () => noAnswer }),
            Effect.catchTag("SqlError", () => noAnswer),
            Effect.filterOrFail((migrated) => migrated, () => new NotReady({ reason: "migrations_missing" })),
            Effect.asVoid
          )
        })
      })
    )

  /** For stores that are always there, such as the one in memory. */
  static readonly layerAlways: Layer.Layer<Readiness> = Layer.succeed(Readiness, { check: Effect.void })
}
