/** Asks a server that loads `probe.ts`. */
import { Effect } from "effect"
import * as fs from "node:fs"
import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { type ProbeAnswer, socketOf } from "./probeAnswer.ts"

/** Flags of Node that load the probe. */
export const probeFlags: ReadonlyArray<string> = ["--import", new URL("probe.ts", import.meta.url).href]

/** Dies when the process has ended. */
export const ask = (pid: number): Effect.Effect<ProbeAnswer> =>
  Effect.promise(async () => JSON.parse(await text(connect(socketOf(pid)))) as ProbeAnswer)

/** Removes the socket that an ended process left. */
export const forget = (pid: number): Effect.Effect<void> => Effect.sync(() => fs.rmSync(socketOf(pid), { force: true }))
