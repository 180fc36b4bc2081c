import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { environment } from "./Command.ts"
import { hasCode, openFile } from "./DataDirectory.ts"
import { attempt, LocalPostgresError, useYourOwn } from "./LocalPostgresError.ts"

/** `O_EXLOCK` of macOS and the BSDs: opens and locks the file in one step. Node has no name for it. */
const openWithLock = process.platform === "linux" ? 0 : 0x20

/**
 * Takes the lock of a data directory and holds it until the scope closes. False when a process, this one included, holds it
 * already.
 *
 * It is the kernel's advisory lock (`flock`) on the file `lock`, which is never removed. Only a user who can open the file can
 * take it, and the kernel frees it when the process ends, however it ends. Containers of one machine share it with the volume.
 */
export const tryLock = Effect.fnUntraced(function*(
  dataDirectory: string
): Effect.fn.Return<boolean, LocalPostgresError, Scope.Scope> {
  const file = path.join(dataDirectory, "lock")
  const open = attempt(
    `Could not open ${file}`,
    () => openFile(file, fs.constants.O_RDWR | fs.constants.O_CREAT | openWithLock)
  ).pipe(Effect.catchIf(({ cause }) => hasCode(cause, "EAGAIN"), () => Effect.undefined))
  const descriptor = yield* open
  if (descriptor === undefined) return false
  const close = Effect.sync(() => fs.closeSync(descriptor))
  const isTaken = openWithLock !== 0 || (yield* Effect.onError(flock(descriptor), () => close))
  yield* isTaken ? Effect.addFinalizer(() => close) : close
  return isTaken
}, Effect.uninterruptible)

/** As `tryLock`, but asks again until no other process holds the lock. */
export const waitForLock = (dataDirectory: string): Effect.Effect<void, LocalPostgresError, Scope.Scope> =>
  Effect.gen(function*() {
    while (!(yield* tryLock(dataDirectory))) yield* Effect.sleep("500 millis")
  })

/**
 * Locks an open file. False when another process holds the lock.
 *
 * Node has no `flock`. The lock belongs to the open file, which the program `flock` of util-linux or BusyBox shares with this process:
 * it locks and exits, and this process keeps the lock.
 */
const flock = (descriptor: number): Effect.Effect<boolean, LocalPostgresError> =>
  Effect.callback((resume) => {
    const child = spawn("flock", ["-n", "3"], {
      cwd: "/",
      env: environment(),
      stdio: ["ignore", "ignore", "pipe", descriptor]
    })
    let said = ""
    child.stderr?.setEncoding("utf8").on("data", (text: string) => said += text)
    const fail = (reason: string) =>
      resume(Effect.fail(new LocalPostgresError({ message: `Could not lock the data directory: ${reason}` })))
    child.once("error", ({ message }) => fail(`${message}. Install util-linux. ${useYourOwn}`))
    child.once("close", (code) => {
      if (code === 0 || (code === 1 && said === "")) return resume(Effect.succeed(code === 0))
      fail(said.trim() || "the program flock was stopped")
    })
  })
