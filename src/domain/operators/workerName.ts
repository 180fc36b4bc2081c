/**
 * How operators read the name of a process with workers, in every text and table, and for how long. The page of the console shares it, so
 * the file imports nothing.
 */

/** For how many milliseconds after its last report a worker is shown. Its claims are moved much earlier. */
export const shownAfterReport = 600_000

/** `worker bank-1` by its `WORKER_ID`, or else `process a953a427`. */
export const workerName = ({ process_id, worker_id }: {
  readonly process_id: string
  readonly worker_id: string | null
}): string => worker_id === null ? `process ${process_id.slice(0, 8)}` : `worker ${worker_id}`
