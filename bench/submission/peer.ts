/**
 * The peer of the worker: a typical hand-written job queue on PostgreSQL. Each of its loops holds a connection, and its
 * job in an open transaction until the provider answers. Its statements are named, so that PostgreSQL plans them once.
 *
 * It guarantees less than the worker. A job runs at least once, so after a crash it is submitted again. The queue keeps
 * no history of a job, and does not check the standing of the grant.
 */
import { Agent, request } from "@effect/platform-node/Undici"
import { Client } from "pg"
import { configuration, report } from "../shared/processes.ts"
import { concurrency, now, peerChannel, pgOptions, type WorkerConfig } from "./config.ts"

const { database, listens, sandboxUrl, timed } = configuration<WorkerConfig>()

/** Milliseconds until an idle loop polls again: the default of `SubmissionPolicy`. */
const pollInterval = 1000

interface Job {
  readonly id: string
  readonly payload: unknown
}

const begun: Array<readonly [string, number]> = []
process.on("message", () => report({ begun }))

// The same undici client as in the gateway's worker.
const dispatcher = new Agent({ connections: concurrency, pipelining: 1, keepAliveTimeout: 2000 })

/** Submits a job. True if it succeeded. */
const submit = async ({ id, payload }: Job): Promise<boolean> => {
  if (timed) begun.push([id, now()])
  const { body, statusCode } = await request(`${sandboxUrl}/mutations`, {
    method: "POST",
    headers: { "content-type": "application/json", "accept": "application/json", "idempotency-key": id },
    body: JSON.stringify({ type: "payment", payload }),
    dispatcher
  })
  const answer = await body.json() as { readonly status?: string }
  return statusCode === 200 && answer.status === "succeeded"
}

const connect = async () => {
  const client = new Client(pgOptions(database))
  await client.connect()
  return client
}

const idle: Array<() => void> = []
let announcements = 0

const wake = (count: number) => {
  announcements++
  for (const resume of idle.splice(0, count)) resume()
}

const pause = () =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(() => resume(), pollInterval)
    const resume = () => {
      clearTimeout(timer)
      const index = idle.indexOf(resume)
      if (index >= 0) idle.splice(index, 1)
      resolve()
    }
    idle.push(resume)
  })

const take = {
  name: "take",
  text: "SELECT id, payload FROM peer.jobs WHERE state = 'waiting' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
  values: []
}
const finish = "UPDATE peer.jobs SET state = $2, finished_at = now() WHERE id = $1"

const runOne = async (client: Client): Promise<boolean> => {
  await client.query("BEGIN")
  const { rows: [job] } = await client.query<Job>(take)
  if (job !== undefined) {
    const state = await submit(job) ? "succeeded" : "failed"
    await client.query({ name: "finish", text: finish, values: [job.id, state] })
  }
  await client.query("COMMIT")
  return job !== undefined
}

const work = async (client: Client): Promise<never> => {
  for (;;) {
    const seen = announcements
    // Poll again after an announcement during the poll: it may have missed that job.
    if (!await runOne(client) && seen === announcements) await pause()
  }
}

if (listens) {
  const listener = await connect()
  listener.on("notification", ({ payload }) => wake(Number(payload)))
  await listener.query(`LISTEN ${peerChannel}`)
}
for (const client of await Promise.all(Array.from({ length: concurrency }, connect))) void work(client)
process.once("SIGTERM", () => process.exit())
report({})
