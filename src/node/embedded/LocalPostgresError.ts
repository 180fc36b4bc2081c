import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The local PostgreSQL could not be found, started or reached.
 *
 * `message` is written for the person at the terminal: it names the failure, quotes the end of the server's log if
 * there is one, and names the remedy (usually: set `DATABASE_URL`).
 */
export class LocalPostgresError extends Schema.TaggedError<LocalPostgresError>()("LocalPostgresError", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** The last sentence of messages about machines that cannot run PostgreSQL. */
export const useYourOwn = "Set DATABASE_URL to use a PostgreSQL server of your own."

/** Runs a synchronous system call; a throw becomes a `LocalPostgresError` that starts with `doing`. */
export const attempt = <A>(doing: string, call: () => A): Effect.Effect<A, LocalPostgresError> =>
  Effect.try({ try: call, catch: failed(doing) })

const failed = (doing: string) => (cause: unknown) =>
  new LocalPostgresError({ message: `${doing}: ${cause instanceof Error ? cause.message : String(cause)}`, cause })
