import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { LocalPostgresError } from "./LocalPostgresError.ts"

/** A user and group to become before a program is executed. Only root can. */
export interface Identity {
  readonly uid: number
  readonly gid: number
}

/**
 * The whole environment of the programs started here.
 *
 * The gateway's own variables stay out: they hold secrets, and a stray `PGDATA` or `PGOPTIONS` would change PostgreSQL.
 * `LC_ALL=C` keeps the server's messages in English, which `Server` reads.
 */
export const environment = (): Record<string, string> => {
  const { LD_LIBRARY_PATH, PATH } = process.env
  return { ...PATH && { PATH }, ...LD_LIBRARY_PATH && { LD_LIBRARY_PATH }, LC_ALL: "C", TZ: "UTC" }
}

/**
 * Runs a short program to its end and returns its standard output. Fails with its standard error when it exits with
 * anything but 0. On interruption the program is terminated and waited for.
 */
export const run = (
  file: string,
  args: ReadonlyArray<string>,
  identity?: Identity
): Effect.Effect<string, LocalPostgresError> =>
  Effect.callback((resume) => {
    const onEnd = (cause: Error | null, stdout: string, stderr: string) =>
      resume(
        cause === null
          ? Effect.succeed(stdout)
          : Effect.fail(new LocalPostgresError({ message: `${file} failed: ${stderr.trim() || cause.message}`, cause }))
      )
    try {
      const child = execFile(file, args, { env: environment(), cwd: "/", ...identity }, onEnd)
      return Effect.callback((ended) => {
        if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return ended(Effect.void)
        child.once("close", () => ended(Effect.void))
        child.kill("SIGTERM")
      })
    } catch (cause) {
      // Node throws some failures to start, such as a forbidden change of user, instead of passing them on.
      onEnd(cause instanceof Error ? cause : new Error(String(cause)), "", "")
    }
  })
