/** Claims in flight: a worker sends, or it has ended, and the rescuer moves the operation to `indeterminate`. */
import type { OperatorPage, Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatOperations } from "../data/format.ts"
import { useResource } from "../data/resource.ts"
import { to } from "../data/route.ts"

export type Worker = Overview["workers"][number]

/** Milliseconds without a report after which a worker counts as lost. */
const lostAfter = 30_000

/** For how many milliseconds a worker has not reported itself, at this time. */
export const silence = ({ seen_at }: Worker, at: string): number => Date.parse(at) - Date.parse(seen_at)

export const isLost = (worker: Worker, at: string): boolean => silence(worker, at) > lostAfter

/** The operations that a worker has claimed. One without a name leaves none on its claims: then all that are submitting. */
export const claimsOf = ({ worker_id }: Worker): string =>
  to(["queues", "all"], { state: "submitting", claimed_by: worker_id ?? "", order: "oldest" })

/** Submitting operations: the first page, oldest first. */
export const useSubmitting = () =>
  useResource<OperatorPage>("/operations?state=submitting&order=oldest", { gap: 2000, every: 15_000 }).data

/**
 * How many operations of the page have a claim that no worker returned, and when the rescuer has moved the last of them; null: more
 * follow. `by`: only those that this worker may have. Null: none.
 */
export const openClaims = ({ next, operations }: OperatorPage, by?: Worker) => {
  const open = operations.filter(({ operation, schedule }) =>
    schedule.return_reason === null
    // A worker without a name leaves none on its claims. It claimed none after it was lost.
    && (!by || schedule.claimed_by === by.worker_id
        && Date.parse(operation.updated_at) <= Date.parse(by.seen_at) + lostAfter)
  )
  const last = open.map(({ schedule }) => schedule.due_at ?? "").sort().at(-1)
  if (!last) return null
  const count = formatOperations(open.length)
  return next === null ? { count, at: last } : { count: `${count} or more`, at: null }
}
