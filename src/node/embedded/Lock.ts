import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import { environment } from "./Command.ts"
import type { Owner } from "./DirectoryOwner.ts"
import { LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"
import { hasCode, openOrCreate } from "./OwnedFiles.ts"

/** The file whose lock makes a process the owner of a data directory. It is never removed. */
export interface LockFile {
  readonly file: string
  readonly owner: Owner
}

/**
 * Takes the lock and holds it until the scope closes. False when a process, this one included, holds it already.
 *
 * It is the kernel's advisory lock on an open file (`flock`). Only a user who can open the file can take it, and the
 * kernel frees it when the process ends, however it ends. Containers of one machine share it with the volume.
 */
export const tryLock = (lock: LockFile): Effect.Effect<boolean, LocalPostgresError, Scope.Scope> => hold(lock, false)

/** As `tryLock`, but waits for as long as another process holds the lock. */
export const waitForLock = (lock: LockFile): Effect.Effect<void, LocalPostgresError, Scope.Scope> =>
  Effect.asVoid(hold(lock, true))

/** Only the wait can be interrupted: a lock that was taken always gets its finalizer. */
const hold = (lock: LockFile, wait: boolean) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      while (true) {
        const descriptor = yield* openLocked(lock, wait, restore)
        if (descriptor !== undefined) {
          const close = Effect.sync(() => fs.closeSync(descriptor))
          if (isAt(lock.file, descriptor)) {
            yield* Effect.addFinalizer(() => close)
            return true
          }
          // The data directory was deleted or moved while this process waited: its lock guards nothing.
          yield* close
        } else if (wait) yield* restore(Effect.sleep("250 millis"))
        else return false
      }
    })
  )

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** `O_EXLOCK` of macOS and the BSDs: opens and locks the file in one step. Node has no name for it. */
const openWithLock = 0x20

/** The descriptor of the locked file, or `undefined` when another process holds the lock and it was not waited for. */
const openLocked = ({ file, owner }: LockFile, wait: boolean, restore: Restore) =>
  process.platform === "linux"
    ? Effect.flatMap(openOrCreate(file, fs.constants.O_RDWR, owner), (descriptor) => {
      const close = Effect.sync(() => fs.closeSync(descriptor))
      return restore(flock(descriptor, wait)).pipe(
        Effect.onError(() => close),
        Effect.flatMap((taken) => taken ? Effect.succeed(descriptor) : Effect.as(close, undefined))
      )
    })
    : openOrCreate(file, fs.constants.O_RDWR | openWithLock, owner).pipe(
      Effect.catchIf(({ cause }) => hasCode(cause, "EAGAIN"), () => Effect.succeed(undefined))
    )

const isAt = (file: string, descriptor: number) => {
  const [there, held] = [fs.lstatSync(file, { throwIfNoEntry: false }), fs.fstatSync(descriptor)]
  return there?.dev === held.dev && there.ino === held.ino
}

/**
 * Locks an open file. False when another process holds the lock and it is not waited for.
 *
 * Node has no `flock`. The lock belongs to the open file, which the program `flock` of util-linux or BusyBox shares
 * with this process: it locks and exits, and this process keeps the lock. The program waits in a session of its own,
 * where Ctrl-C does not reach it. A waiting one that outlives a killed process takes the lock in its turn, exits, and
 * so frees it.
 */
const flock = (descriptor: number, wait: boolean): Effect.Effect<boolean, LocalPostgresError> =>
  Effect.callback((resume) => {
    const child = spawn("flock", [...wait ? [] : ["-n"], "3"], {
      cwd: "/",
      detached: true,
      env: environment(),
      stdio: ["ignore", "ignore", "pipe", descriptor]
    })
    let said = ""
    child.stderr?.setEncoding("utf8").on("data", (text: string) => said += text)
    const end = () => void child.kill()
    process.once("exit", end)
    const conclude = (result: Effect.Effect<boolean, LocalPostgresError>) => {
      process.off("exit", end)
      resume(result)
    }
    child.once(
      "error",
      (cause) => conclude(Effect.fail(cannotLock(`${cause.message}. Install util-linux. ${useYourOwn}`, cause)))
    )
    child.once("close", (code) => {
      if (code === 0 || (code === 1 && said === "")) return conclude(Effect.succeed(code === 0))
      conclude(Effect.fail(cannotLock(said.trim() || "the program flock was stopped")))
    })
    return Effect.sync(end)
  })

const cannotLock = (reason: string, cause?: unknown) =>
  new LocalPostgresError({ message: `Could not lock the data directory: ${reason}`, cause })
