/**
 * DBOS Transact for TypeScript: a durable workflow with one payment step, in a queue on PostgreSQL.
 *
 * - A worker service and its client: "Queue Worker", https://docs.dbos.dev/typescript/examples/queue-worker
 * - The call in a step with retries: "Steps", https://docs.dbos.dev/typescript/tutorials/step-tutorial
 * - Workflow id as idempotency key: "Workflows", https://docs.dbos.dev/typescript/tutorials/workflow-tutorial
 * - Steps should be idempotent: "DBOS Architecture", https://docs.dbos.dev/architecture#how-workflow-recovery-works
 * - Recovery by executor id, without the service Conductor: "Workflow Recovery",
 *   https://docs.dbos.dev/production/workflow-recovery#recovery-in-a-distributed-setting
 * - A deploy that continues workflows: "Upgrading Workflow Code", patching,
 *   https://docs.dbos.dev/typescript/tutorials/upgrading-workflows#patching
 *
 * `default`: retries of the step are on, with their defaults (3 attempts). What is still an error ends the workflow.
 * `tuned`: `shouldRetry` of "Steps" repeats only what cannot pay twice, up to 10 times as its example. An unclear answer
 * ends the workflow with a result that asks for a person.
 */
import { DBOS, DBOSClient, type StepConfig, type WorkflowStatus } from "@dbos-inc/dbos-sdk"
import type { Outcome, Payment } from "../types.ts"
import { maySendAgain, NotTaken, pay, Refused, untilStopped } from "./bank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const application = "payments"
const queue = "payments"
const workflowName = "makePayment"

type Result = Omit<Outcome, "id">

const defaultRetries: StepConfig = {
  retriesAllowed: true,
  shouldRetry: (error) => !(error instanceof Refused)
}
const tunedRetries: StepConfig = {
  retriesAllowed: true,
  maxAttempts: 10,
  shouldRetry: maySendAgain
}

/** The workflow's id is the payment's, so it is the key. */
const payInStep = async (payment: Payment, retries: StepConfig): Promise<Result> => {
  const id = await DBOS.runStep(() => pay(payment, DBOS.workflowID!), { name: "pay", ...retries })
  return { told: "paid", reason: id }
}

/** The class of an error is lost when a workflow reads it back from its checkpoint; then a person decides. */
const resultOf = (error: unknown): Result => {
  const { errors = [error], message } = error as { readonly errors?: ReadonlyArray<unknown>; readonly message: string }
  const isUnpaid = errors.every((error) => error instanceof Refused || error instanceof NotTaken)
  return { told: isUnpaid ? "failed" : "person", reason: message }
}

const makePayment = async (payment: Payment): Promise<Result> => {
  if (settings.variant === "default") return payInStep(payment, defaultRetries)
  try {
    return await payInStep(payment, tunedRetries)
  } catch (error) {
    return resultOf(error)
  }
}

DBOS.registerWorkflow(makePayment, { name: workflowName })

const silent = () => {}
const complain = (entry: unknown) =>
  void process.stderr.write(`${entry instanceof Error ? entry.message : String(entry)}\n`)
const logger = { info: silent, debug: silent, warn: silent, error: complain }

const launch = async (executorID: string, listenQueues?: Array<string>) => {
  DBOS.setConfig({
    name: application,
    systemDatabaseUrl: settings.databaseUrl,
    systemDatabasePoolSize: settings.concurrency + 4,
    executorID,
    enablePatching: true,
    logger,
    ...listenQueues === undefined ? {} : { listenQueues }
  })
  await DBOS.launch()
  await DBOS.registerQueue(queue, { workerConcurrency: settings.concurrency, minPollingIntervalMs: 250 })
}

const withClient = async (use: (client: DBOSClient) => Promise<void>) => {
  const client = await DBOSClient.create({
    systemDatabaseUrl: settings.databaseUrl,
    applicationName: application,
    logger
  })
  await use(client)
  await client.destroy()
}

const open: ReadonlyArray<string> = ["ENQUEUED", "DELAYED", "PENDING"]

const resultFor = ({ error, output, status }: WorkflowStatus): Result =>
  status === "SUCCESS"
    ? output as Result
    : status === "ERROR"
    ? { told: "failed", reason: String(error) }
    // Otherwise cancelled, or recovered too often.
    : { told: open.includes(status) ? "open" : "person", reason: status }

await runCommand({
  prepare: async () => {
    await launch("prepare", [])
    await DBOS.shutdown()
  },
  work: async () => {
    await launch(`worker-${settings.worker}`)
    ready()
    await untilStopped(() => DBOS.shutdown({ workflowCompletionTimeoutMS: 10_000 }))
  },
  accept: () =>
    withClient(async (client) => {
      for (const payment of await readPayments()) {
        await client.enqueue<typeof makePayment>({ workflowName, queueName: queue, workflowID: payment.id }, payment)
        accepted(payment.id)
      }
    }),
  outcomes: () =>
    withClient(async (client) => {
      for (const workflow of await client.listWorkflows({ workflowName })) {
        tellOutcome({ id: workflow.workflowID, ...resultFor(workflow) })
      }
    })
})
