/**
 * The hand-written peer: a typical hand-written job queue on PostgreSQL. Each of its loops holds a connection, and its
 * job in an open transaction until the provider answers. Its statements are named, so that PostgreSQL plans them once.
 *
 * It guarantees less than the worker. A job runs at least once, so after a crash it is submitted again. The queue keeps
 * no history of a job, and does not check the standing of the grant.
 */
import { Client } from "pg"
import { report } from "../../shared/processes.ts"
import { concurrency, peerChannel, pgOptions } from "../config.ts"
import { database, type Job, listens, submit } from "./submit.ts"

/** Milliseconds until an idle loop polls again: the default of `SubmissionPolicy`. */
const pollInterval = 1000

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
  text: "SELECT id, payload FROM hand_written.jobs WHERE state = 'waiting' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
  values: []
}
const finish = "UPDATE hand_written.jobs SET state = $2, finished_at = now() WHERE id = $1"

const runOne = async (client: Client): Promise<boolean> => {
  await client.query("BEGIN")
  const { rows: [job] } = await client.query<Job>(take)
  if (job !== undefined) {
    await client.query({ name: "finish", text: finish, values: [job.id, await submit(job)] })
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
report({})
