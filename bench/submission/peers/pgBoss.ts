/**
 * The peer on pg-boss, with the settings that its documentation offers for throughput. A handler submits a batch of
 * jobs at the same time and settles their rows by one statement. pg-boss then completes the jobs by another.
 *
 * It guarantees less than the gateway's worker. A job that is active for too long is submitted again, so after a crash
 * too. It keeps no history of a payment, and does not check the standing of the grant.
 */
import { Pool } from "pg"
import { PgBoss } from "pg-boss"
import { report } from "../../shared/processes.ts"
import { concurrency, pgOptions, taskName } from "../config.ts"
import { database, type Job, listens, submit } from "./submit.ts"

// Fetchers and their batches: together the concurrency of the other contestants. Eight fetchers need more CPU time of
// PostgreSQL than four; with one or two, more jobs wait for the slowest job of their batch.
const fetchers = 4
const batchSize = concurrency / fetchers

const finish = `
  UPDATE boss_peer.payments SET state = settled.state, finished_at = now()
  FROM unnest($1::uuid[], $2::text[]) AS settled (id, state)
  WHERE payments.id = settled.id`

const pool = new Pool({ ...pgOptions(database), max: fetchers })

// https://pgboss.io/api/constructor, `useListenNotify`: wakes the fetchers when a job is created.
const boss = new PgBoss({ ...pgOptions(database), useListenNotify: listens })
boss.on("error", (error) => process.stderr.write(`${error.message}\n`))
await boss.start()
await boss.work<Job>(
  taskName,
  {
    // https://pgboss.io/api/workers, `localConcurrency`: fetchers that work independently in this process.
    localConcurrency: fetchers,
    batchSize,
    // The same page, `burstWhenBatchFull`: fetches without delay while batches are full.
    burstWhenBatchFull: true,
    // The same page, `pollingIntervalSeconds`: 0.5 is the shortest.
    pollingIntervalSeconds: 0.5
  },
  async (jobs) => {
    const states = await Promise.all(jobs.map(({ data }) => submit(data)))
    await pool.query({ name: "finish", text: finish, values: [jobs.map(({ data }) => data.id), states] })
  }
)
report({})
