/**
 * What `probe.ts` and its readers share. It imports only what is built into Node, because the probe loads it into the
 * servers whose memory it measures.
 */
import * as os from "node:os"
import * as path from "node:path"

export interface ProbeAnswer {
  /** Milliseconds of garbage collection in the main thread since the start. */
  readonly garbage: number
  /** MiB. */
  readonly rss: number
  readonly heapUsed: number
}

/** The socket of the probe in a process. */
export const socketOf = (pid: number): string => path.join(os.tmpdir(), `gateway-bench-probe-${pid}.sock`)
