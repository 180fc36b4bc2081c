/** The connections of each pool in each process, and the `CONNECTION LIMIT` of the roles that follows from them. */
import type { ConnectionLimits } from "../../services/sql/roles.ts"

/** Most connections of each pool to the primary. */
export const poolSizes = {
  reader: 4,
  lists: 8,
  probe: 1,
  proofs: 8,
  figures: 2,
  readIndex: 2,
  provisioning: 4,
  writer: 10,
  migration: 2,
  worker: 16
} as const

const { figures, lists, probe, proofs, provisioning, reader, readIndex } = poolSizes

/** Most connections of a process as reader and as provisioner: the sums of their pools. */
const ofProcess: ConnectionLimits = {
  reader: reader + lists + probe + proofs + figures + readIndex,
  provisioner: provisioning
}

/**
 * Limits for this number of processes on all hosts together, and one more: a process that starts may meet the connections of one that
 * ended a moment ago.
 */
export const connectionLimits = (processes: number): ConnectionLimits => ({
  reader: (processes + 1) * ofProcess.reader,
  provisioner: (processes + 1) * ofProcess.provisioner
})
