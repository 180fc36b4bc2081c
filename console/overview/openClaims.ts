/** Claims in flight: a worker sends, or it has ended, and the rescuer moves the operation to `indeterminate`. */
import type { OperatorPage, Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatInstant, formatOperations } from "../data/format.ts"
import { useResource } from "../data/resource.ts"
import { to } from "../data/route.ts"

type Worker = Overview["workers"][number]

/** Milliseconds without a report after which a worker counts as lost. */
const lostAfter = 30_000

/** Whether the worker had not reported itself for too long, at this time. */
export const isLost = ({ seen_at }: Worker, at: string): boolean => Date.parse(at) - Date.parse(seen_at) > lostAfter

export const submittingAddress = to(["queues", "all"], { state: "submitting", order: "oldest" })

/** Submitting operations: the first page, oldest first. */
export const useSubmitting = () =>
  useResource<OperatorPage>("/operations?state=submitting&order=oldest", { gap: 2000, every: 15_000 }).data

/**
 * How many operations of the page have a claim that no worker returned, and by when the rescuer has moved them. `by`: only those that this
 * worker may have. Null: none.
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
  return next === null
    ? { count, until: ` by ${formatInstant(last)}` }
    : { count: `${count} or more`, until: "" }
}

/** Of each lost worker: the operations that it may have claimed, and what happens to them. No person has to act. */
export const lostClaims = (
  { at, workers }: Overview,
  page: OperatorPage | undefined
): ReadonlyArray<{ readonly message: string; readonly next: string }> =>
  workers.flatMap((worker) => {
    const claims = page && isLost(worker, at) && openClaims(page, worker)
    return claims
      ? [{
        message: `Worker ${worker.worker_id ?? worker.process_id} is lost. It may have claimed ${claims.count}`,
        next: `The rescuer moves these to Indeterminate${claims.until}.`
      }]
      : []
  })
