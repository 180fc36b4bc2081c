/**
 * pg-boss: a job for each payment, in a queue on PostgreSQL.
 *
 * - Worker, concurrency, LISTEN/NOTIFY, results of jobs: "Workers", https://pgboss.io/api/workers
 * - Retries, heartbeat, dead letter queue: "Queues", https://pgboss.io/api/queues
 * - The id of a job, chosen by its sender: "Jobs", https://pgboss.io/api/jobs#send-name-data-options
 * - "Introduction", https://pgboss.io/introduction, promises "exactly-once delivery" of jobs. By "Queues", "Heartbeat vs
 *   expiration", a job whose worker no longer answers is delivered again.
 *
 * `default`: two retries at once, which is the default. `heartbeatSeconds` has its least value; "Queues" recommends it.
 * `tuned`: a dead letter queue, whose jobs wait for a person. At a bank whose keys last, ten retries with backoff. At
 * others none (`retryLimit: 0`), and the handler sends a later job if the bank took nothing.
 */
import { createHash } from "node:crypto"
import { type JobResult, PgBoss } from "pg-boss"
import type { Outcome, Payment } from "../types.ts"
import { NotTaken, pay, Refused, untilStopped } from "./bank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const isTuned = settings.variant === "tuned"
const isAtMostOnce = isTuned && settings.bankKeys !== "forever"
const queue = "payments"
const deadLetters = "payments_for_a_person"

const tunedOptions = {
  deadLetter: deadLetters,
  ...isAtMostOnce ? { retryLimit: 0 } : { retryLimit: 10, retryDelay: 1, retryBackoff: true }
}
const options = {
  notify: true,
  heartbeatSeconds: Math.max(10, settings.leaseSeconds),
  ...isTuned ? tunedOptions : {}
}

/** Times that the tuned handler tries a bank that takes nothing. */
const maxTries = 10

interface Order extends Payment {
  /** In the tuned variant: jobs that found that the bank takes nothing. */
  readonly tries?: number
}

/** The id of a payment's first job, which must be a UUID. */
const jobIdOf = (id: string) =>
  createHash("md5").update(id).digest("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")

type Told = Pick<Outcome, "told" | "reason">

const boss = new PgBoss({
  connectionString: settings.databaseUrl,
  max: settings.concurrency + 4,
  useListenNotify: process.argv[2] === "work",
  superviseIntervalSeconds: 1,
  monitorIntervalSeconds: 1
})
boss.on("error", (error) => process.stderr.write(`${error.message}\n`))

const completed = (told: Told["told"], reason: string) => ({ status: "completed", output: { told, reason } }) as const

/** The result of a tuned job. Throws what the queue retries. */
const settle = async (order: Order): Promise<Omit<JobResult, "id">> => {
  const { id, tries = 1 } = order
  try {
    return completed("paid", await pay(order, id))
  } catch (error) {
    const { message } = error as Error
    if (error instanceof Refused) return completed("failed", message)
    if (!isAtMostOnce) return { status: "failed", output: { message } }
    if (!(error instanceof NotTaken)) return { status: "deadletter", output: { message } }
    if (tries === maxTries) return completed("failed", message)
    await boss.send(queue, { ...order, tries: tries + 1 }, { startAfter: 2 ** (tries - 1) })
    return completed("open", message)
  }
}

const work = () => {
  const workOptions = {
    localConcurrency: settings.concurrency,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5
  }
  return isTuned
    ? boss.work<Order>(
      queue,
      { ...workOptions, perJobResults: true },
      (jobs) => Promise.all(jobs.map(async ({ data, id }) => ({ id, ...await settle(data) })))
    )
    : boss.work<Order>(queue, workOptions, async ([job]) => ({ reason: await pay(job!.data, job!.data.id) }))
}

const findAll = (name: string) => boss.findJobs<Order>(name, { limit: 100_000 })

const started = async (use: () => Promise<void>) => {
  await boss.start()
  await use()
  await boss.stop()
}

/** The best known first: a payment may have several jobs. */
const ranks: ReadonlyArray<Outcome["told"]> = ["paid", "failed", "open", "person"]

await runCommand({
  prepare: () =>
    started(async () => {
      await boss.createQueue(deadLetters)
      await boss.createQueue(queue, options)
    }),
  work: async () => {
    await boss.start()
    await work()
    ready()
    await untilStopped(() => boss.stop())
  },
  accept: () =>
    started(async () => {
      for (const payment of await readPayments()) {
        // Null if a job with this id exists.
        await boss.send(queue, payment, { id: jobIdOf(payment.id) })
        accepted(payment.id)
      }
    }),
  outcomes: () =>
    started(async () => {
      const told = new Map<string, Told>()
      const tell = (id: string, next: Told) => {
        const previous = told.get(id)
        if (previous === undefined || ranks.indexOf(next.told) < ranks.indexOf(previous.told)) told.set(id, next)
      }
      for (const { data, output, state } of await findAll(queue)) {
        // Without the stack, which has paths of this machine.
        const reason = String((output as { readonly message?: unknown } | null)?.message ?? JSON.stringify(output))
        if (state === "completed") tell(data.id, { told: "paid", reason, ...output })
        else if (state === "failed") tell(data.id, { told: isTuned ? "person" : "failed", reason })
        else tell(data.id, { told: "open", reason: state })
      }
      for (const { data } of await findAll(deadLetters)) tell(data.id, { told: "person", reason: "dead letter" })
      for (const [id, outcome] of told) tellOutcome({ id, ...outcome })
    })
})
