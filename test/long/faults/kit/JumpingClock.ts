/** Processes whose wall clock jumps, by Debian's library faketime. Their timers keep the real time. */
import * as fs from "node:fs"
import * as path from "node:path"

/** The library that is preloaded. Null: the package faketime is not installed. */
export const clockLibrary = fs.globSync("/usr/lib/*/faketime/libfaketime.so.1")[0] ?? null

/** The environment of a process whose clock is this file. It notices a jump within a second. */
export const clockEnvironment = (clock: string): Readonly<Record<string, string>> =>
  clockLibrary === null ? {} : {
    LD_PRELOAD: clockLibrary,
    FAKETIME_TIMESTAMP_FILE: clock,
    FAKETIME_CACHE_DURATION: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1"
  }

/** From now on the clock differs by this many seconds. */
export const setClock = (clock: string, seconds: number): void => {
  // Replaced at once, because the library may read it at any time.
  fs.writeFileSync(`${clock}.new`, `${seconds < 0 ? "" : "+"}${seconds}\n`)
  fs.renameSync(`${clock}.new`, clock)
}

/** Makes a directory with PostgreSQL's programs, whose server has that clock. */
export const programsWithClock = (postgresDirectory: string, programs: string, clock: string): string => {
  if (clockLibrary === null) return postgresDirectory
  fs.mkdirSync(programs)
  for (const program of fs.readdirSync(postgresDirectory)) {
    if (program !== "postgres") fs.symlinkSync(path.join(postgresDirectory, program), path.join(programs, program))
  }
  const settings = Object.entries(clockEnvironment(clock)).map(([name, value]) => `${name}=${value}`).join(" ")
  const server = path.join(programs, "postgres")
  fs.writeFileSync(server, `#!/bin/sh\nexec env ${settings} ${postgresDirectory}/postgres "$@"\n`)
  fs.chmodSync(server, 0o755)
  return programs
}
