import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { environment } from "./Command.ts"
import { hasCode, openFile } from "./DataDirectory.ts"
import { attempt, LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"

/**
 * Takes the lock of a data directory and holds it until the scope closes. False when a process, this one included, holds it
 * already.
 *
 * It is the kernel's advisory lock (`flock`) on the file `lock`, which is never removed. Only a user who can open the file can
 * take it, and the kernel frees it when the process ends, however it ends. Containers of one machine share it with the volume.
 */
export const tryLock = (dataDirectory: string): Effect.Effect<boolean, LocalPostgresError, Scope.Scope> =>
  hold(dataDirectory, false)

/** As `tryLock`, but waits for as long as another process holds the lock. */
export const waitForLock = (dataDirectory: string): Effect.Effect<void, LocalPostgresError, Scope.Scope> =>
  Effect.asVoid(hold(dataDirectory, true))

/** `O_EXLOCK` of macOS and the BSDs: opens and locks the file in one step. Node has no name for it. */
const openWithLock = process.platform === "linux" ? 0 : 0x20

/** Only the wait can be interrupted: a lock that was taken always gets its finalizer. */
const hold = (dataDirectory: string, wait: boolean) =>
  Effect.uninterruptibleMask(Effect.fnUntraced(function*(restore) {
    const file = path.join(dataDirectory, "lock")
    while (true) {
      const descriptor = yield* attempt(
        `Could not open ${file}`,
        () => openFile(file, fs.constants.O_RDWR | fs.constants.O_CREAT | openWithLock)
      ).pipe(Effect.catchIf(({ cause }) => hasCode(cause, "EAGAIN"), () => Effect.undefined))
      if (descriptor !== undefined) {
        const close = Effect.sync(() => fs.closeSync(descriptor))
        const taken = openWithLock !== 0 || (yield* Effect.onError(restore(flock(descriptor, wait)), () => close))
        if (taken && isAt(file, descriptor)) {
          yield* Effect.addFinalizer(() => close)
          return true
        }
        yield* close
        // The data directory was deleted or moved while this process waited: the lock guards nothing.
        if (taken) continue
      }
      if (!wait) return false
      yield* restore(Effect.sleep("250 millis"))
    }
  }))

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
    const fail = (reason: string) =>
      resume(Effect.fail(new LocalPostgresError({ message: `Could not lock the data directory: ${reason}` })))
    child.once("error", ({ message }) => fail(`${message}. Install util-linux. ${useYourOwn}`))
    child.once("close", (code) => {
      process.off("exit", end)
      if (code === 0 || (code === 1 && said === "")) return resume(Effect.succeed(code === 0))
      fail(said.trim() || "the program flock was stopped")
    })
    return Effect.sync(end)
  })
