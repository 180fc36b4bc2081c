/**
 * The peer of the worker: the job queue on PostgreSQL that many write for themselves. Each of its loops holds a
 * connection, and its job in an open transaction for as long as the provider takes to answer. Its statements are named,
 * so that PostgreSQL plans them once.
 *
 * It promises less: a job runs at least once, so that after a crash a mutation is sent again; nothing is kept of what
 * became of it; and nobody asks whether the grant is still good.
 */
import { Agent, request } from "@effect/platform-node/Undici"
import { Client } from "pg"
import { configuration, report } from "../child.ts"
import { concurrency, now, peerChannel, pgOptions, type WorkerConfig } from "./config.ts"

const { database, listens, sandboxUrl, timed } = configuration<WorkerConfig>()

/** Milliseconds after which a loop that found nothing looks again. It is the default of `SubmissionPolicy`. */
const pollInterval = 1000

interface Job {
  readonly id: string
  readonly payload: unknown
}

const begun: Array<readonly [string, number]> = []
process.on("message", () => report({ begun }))

// The client that the gateway's worker uses, as far as undici goes.
const dispatcher = new Agent({ connections: concurrency, pipelining: 1, keepAliveTimeout: 2000 })

/** Whether it succeeded. */
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
    // What was announced while it looked may be news.
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
