/**
 * graphile-worker: a job for each payment, added in the transaction that adds the payment.
 *
 * - A job in the transaction of its reason, and a job key: "SQL add_job()", https://worker.graphile.org/docs/sql-add-job,
 *   and "Job key", https://worker.graphile.org/docs/job-key
 * - A table of the application's own for results, because finished jobs are deleted: "Database schema", tracking jobs,
 *   https://worker.graphile.org/docs/schema#tracking-jobs
 * - A task that throws is tried again; no job should fail for ever: "Error handling",
 *   https://worker.graphile.org/docs/error-handling, and "Administrative functions",
 *   https://worker.graphile.org/docs/admin-functions#delete_permafailed_jobs
 * - Jobs run at least once: "Introduction", https://worker.graphile.org/docs#reliable
 *
 * `default`: 25 attempts with exponential backoff. The job of a killed worker stays locked for four hours.
 * `tuned`: at a bank whose keys do not last, one attempt, by `maxAttempts` of "addJob()",
 * https://worker.graphile.org/docs/library/add-job. The task adds another job if the bank took nothing. A worker that
 * starts again unlocks the jobs of its killed predecessor: "Force unlock workers",
 * https://worker.graphile.org/docs/admin-functions#force-unlock-workers
 */
import { type JobHelpers, Logger, makeWorkerUtils, run, type WorkerEvents, type WorkerUtils } from "graphile-worker"
import { EventEmitter } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Outcome, Payment } from "../types.ts"
import { NotTaken, pay, Refused, untilStopped } from "./bank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const isTuned = settings.variant === "tuned"
const isAtMostOnce = isTuned && settings.bankKeys !== "forever"

const table = `
  CREATE TABLE IF NOT EXISTS public.payments (
    id text PRIMARY KEY,
    told text NOT NULL DEFAULT 'open',
    reason text NOT NULL DEFAULT ''
  )`

const accept = `
  WITH added AS (INSERT INTO public.payments (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id)
  SELECT graphile_worker.add_job('pay', $2::json, job_key := 'pay-' || id, max_attempts := $3::int) FROM added`

const settle = "UPDATE public.payments SET told = $2, reason = $3 WHERE id = $1"

const outcomes = `
  SELECT payments.id, told, reason, last_error AS "lastError",
    coalesce(attempts >= max_attempts AND locked_at IS NULL, false) AS "isGivenUp"
  FROM public.payments LEFT JOIN graphile_worker.jobs ON key = 'pay-' || payments.id`

/** Times that the tuned task tries a bank that takes nothing. */
const maxTries = 10

interface Job extends Payment {
  /** In the tuned variant: jobs that found that the bank takes nothing. */
  readonly tries?: number
}

/** Tells the outcome, or throws what the default retries. */
const outcomeOf = async (job: Job, { addJob }: JobHelpers): Promise<Pick<Outcome, "told" | "reason">> => {
  const { id, tries = 1 } = job
  try {
    return { told: "paid", reason: await pay(job, id) }
  } catch (error) {
    const reason = (error as Error).message
    if (error instanceof Refused) return { told: "failed", reason }
    if (!isAtMostOnce) throw error
    if (!(error instanceof NotTaken)) return { told: "person", reason }
    if (tries === maxTries) return { told: "failed", reason }
    // The key of a job that runs passes to the new job.
    const runAt = new Date(Date.now() + 1000 * 2 ** (tries - 1))
    await addJob("pay", { ...job, tries: tries + 1 }, { jobKey: `pay-${id}`, maxAttempts: 1, runAt })
    return { told: "open", reason }
  }
}

/** Unlocks the jobs of the killed worker with this number, and remembers the id of the pool that locks this one's jobs. */
const unlockPredecessor = async (events: WorkerEvents) => {
  const file = path.join(settings.stateDirectory, `graphile-worker-${settings.worker}`)
  if (fs.existsSync(file)) await withUtils((utils) => utils.forceUnlockWorkers([fs.readFileSync(file, "utf8")]))
  events.on("pool:create", ({ workerPool }) => fs.writeFileSync(file, workerPool.id))
}

/** The failures of jobs are in their rows. */
const logger = new Logger(() => () => {})

const withUtils = async <A>(use: (utils: WorkerUtils) => Promise<A>) => {
  const utils = await makeWorkerUtils({ connectionString: settings.databaseUrl, logger })
  return use(utils).finally(() => utils.release())
}

await runCommand({
  prepare: () =>
    withUtils(async (utils) => {
      await utils.migrate()
      await utils.withPgClient((client) => client.query(table))
    }),
  work: async () => {
    const events: WorkerEvents = new EventEmitter()
    if (isTuned) await unlockPredecessor(events)
    const runner = await run({
      noHandleSignals: true,
      events,
      taskList: {
        pay: async (payload, helpers) => {
          const job = payload as Job
          const { reason, told } = await outcomeOf(job, helpers)
          await helpers.query(settle, [job.id, told, reason])
        }
      },
      preset: {
        worker: {
          connectionString: settings.databaseUrl,
          concurrentJobs: settings.concurrency,
          // "Configuration", https://worker.graphile.org/docs/config#workermaxpoolsize
          maxPoolSize: settings.concurrency + 4,
          pollInterval: 500,
          minResetLockedInterval: 500,
          maxResetLockedInterval: 1000,
          logger
        }
      }
    })
    ready()
    await untilStopped(() => runner.stop())
  },
  accept: () =>
    withUtils((utils) =>
      utils.withPgClient(async (client) => {
        for (const payment of await readPayments()) {
          await client.query(accept, [payment.id, JSON.stringify(payment), isAtMostOnce ? 1 : 25])
          accepted(payment.id)
        }
      })
    ),
  outcomes: () =>
    withUtils((utils) =>
      utils.withPgClient(async (client) => {
        const { rows } = await client.query<
          Outcome & { readonly lastError: string | null; readonly isGivenUp: boolean }
        >(outcomes)
        for (const { id, isGivenUp, lastError, reason, told } of rows) {
          if (told !== "open") tellOutcome({ id, told, reason })
          else {tellOutcome({
              id,
              told: isGivenUp ? isAtMostOnce ? "person" : "failed" : "open",
              reason: lastError ?? ""
            })}
        }
      })
    )
})
