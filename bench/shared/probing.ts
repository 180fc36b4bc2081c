/**
 * Asks a server that loads `probe.ts`.
 */
import { Effect } from "effect"
import type { ChildProcess } from "node:child_process"
import type { ProbeAnswer } from "./probe.ts"
import { nextMessage } from "./processes.ts"

/** Flags of Node that load the probe. */
export const probeFlags: ReadonlyArray<string> = ["--import", new URL("probe.ts", import.meta.url).href]

export const ask = (child: ChildProcess): Effect.Effect<ProbeAnswer> =>
  Effect.suspend(() => {
    child.send("probe")
    return nextMessage<ProbeAnswer>(child)
  })
