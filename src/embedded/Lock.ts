import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as path from "node:path"
import { LocalPostgresError } from "./LocalPostgresError.ts"

/** A held lock. The kernel frees it when the process ends, however it ends. */
export interface Lock {
  readonly release: Effect.Effect<void>
}

/**
 * Takes the lock of a data directory, or returns `undefined` when a process (this one included) holds it.
 *
 * `key` identifies the directory. Gotcha: on Linux the lock is an abstract socket, which only processes in the same
 * network namespace share: two containers on one volume do not see each other's lock.
 */
export const tryLock = (
  options: { readonly key: string; readonly directory: string }
): Effect.Effect<Lock | undefined, LocalPostgresError> =>
  process.platform === "linux" ? listenOn(`\0${options.key}`) : lockFile(path.join(options.directory, "lock"))

const listenOn = (name: string): Effect.Effect<Lock | undefined, LocalPostgresError> =>
  Effect.callback((resume) => {
    const server = createServer((connection) => connection.destroy())
    server.once("error", (cause) =>
      resume(hasCode(cause, "EADDRINUSE") ? Effect.succeed(undefined) : Effect.fail(cannotLock(cause))))
    // Exclusive: a worker of node:cluster would otherwise share the primary's socket instead of failing.
    server.listen({ path: name, exclusive: true }, () =>
      resume(Effect.succeed({
        release: Effect.callback((closed) =>
          void server.close(() => closed(Effect.void))
        )
      })))
  })

/** `O_EXLOCK` of macOS and the BSDs: opens and locks the file in one step. Node has no name for it. */
const openWithLock = 0x20

const lockFile = (file: string): Effect.Effect<Lock | undefined, LocalPostgresError> =>
  Effect.suspend(() => {
    const { O_CREAT, O_NONBLOCK, O_RDWR } = fs.constants
    try {
      const descriptor = fs.openSync(file, O_RDWR | O_CREAT | O_NONBLOCK | openWithLock, 0o600)
      return Effect.succeed({ release: Effect.sync(() => fs.closeSync(descriptor)) })
    } catch (cause) {
      return hasCode(cause, "EAGAIN") ? Effect.succeed(undefined) : Effect.fail(cannotLock(cause))
    }
  })

const hasCode = (cause: unknown, code: string) => Predicate.hasProperty(cause, "code") && cause.code === code

const cannotLock = (cause: unknown) =>
  new LocalPostgresError({ message: `Could not lock the data directory: ${String(cause)}`, cause })
