/**
 * The peer on graphile-worker, with the settings that its documentation recommends for throughput. The task settles the
 * row of the payment; graphile-worker deletes the job afterwards.
 *
 * It guarantees less than the gateway's worker. After a crash, jobs that were taken stay locked for four hours, and are
 * then submitted again. It keeps no history of a payment, and does not check the standing of the grant.
 */
import { Logger, run } from "graphile-worker"
import { report } from "../../shared/processes.ts"
import { concurrency, taskName, urlOf } from "../config.ts"
import { database, type Job, submit } from "./submit.ts"

const finish = "UPDATE graphile_peer.payments SET state = $2, finished_at = now() WHERE id = $1"

await run({
  noHandleSignals: true,
  taskList: {
    [taskName]: async (job, { withPgClient }) => {
      const { id, payload } = job as Job
      const state = await submit({ id, payload })
      await withPgClient((client) => client.query({ name: "finish", text: finish, values: [id, state] }))
    }
  },
  preset: {
    worker: {
      connectionString: urlOf(database),
      concurrentJobs: concurrency,
      // https://worker.graphile.org/docs/config, `worker.maxPoolSize`: `concurrentJobs + 2`, or more.
      maxPoolSize: concurrency + 2,
      // https://worker.graphile.org/docs/performance#batching: one more than `concurrentJobs`.
      localQueue: { size: concurrency + 1 },
      // The same page, "Quick stats": 0 for the highest throughput.
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      // The performance test of graphile-worker does not log each success either.
      logger: new Logger(() => (level, message) => {
        if (level === "error" || level === "warning") process.stderr.write(`${message}\n`)
      })
    }
  }
})
report({})
