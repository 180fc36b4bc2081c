/**
 * Whether a directory has room for the ledgers.
 */
import * as fs from "node:fs"

/** Bytes of an operation with its history, its indexes and the WAL of the seed. Measured on a ledger of ten million. */
const bytesOfOperation = 2600
/** WAL, temporary files of index builds, and the rows of the rounds. */
const spare = 6e9

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(0)

/** What is lacking for this many operations. Null: nothing. */
export const checkDisk = (directory: string, operations: number): string | null => {
  const { bavail, bsize } = fs.statfsSync(directory)
  const [free, needed] = [bavail * bsize, operations * bytesOfOperation + spare]
  return free >= needed
    ? null
    : `${operations.toLocaleString("en")} operations need ${gigabytes(needed)} GB in ${directory}, and ${
      gigabytes(free)
    } GB are free: choose smaller --sizes, or another directory with TMPDIR or --keep`
}
