/** The contestants, with the pages that their adapters follow. */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import type { Contestant } from "../types.ts"

const require = createRequire(import.meta.url)

/** The installed version of a package. */
export const versionOf = (name: string): string => {
  for (const folder of require.resolve.paths(name) ?? []) {
    const file = `${folder}/${name}/package.json`
    if (fs.existsSync(file)) return (JSON.parse(fs.readFileSync(file, "utf8")) as { readonly version: string }).version
  }
  return "not installed"
}

export const contestants: ReadonlyArray<Contestant> = [
  {
    name: "gateway",
    program: "gateway.ts",
    versions: {},
    variants: [{
      name: "default",
      documentation: "Submission, docs/submission.md, and Providers, docs/providers.md",
      promises:
        "Sends each payment at most once; leaves to a person what the bank's documentation does not let it prove."
    }],
    needsServer: false,
    needsOwnPackages: false
  },
  {
    name: "hand-written",
    program: "handWritten.ts",
    versions: { pg: versionOf("pg") },
    variants: [{
      name: "default",
      documentation: "Idempotent requests, https://docs.stripe.com/api/idempotent_requests",
      promises: "Retries each request with one key; promises nothing at a bank that ignores or forgets keys."
    }],
    needsServer: false,
    needsOwnPackages: false
  },
  {
    name: "dbos",
    program: "dbos.ts",
    versions: { "@dbos-inc/dbos-sdk": versionOf("@dbos-inc/dbos-sdk") },
    variants: [
      {
        name: "default",
        documentation:
          "Steps, configurable retries, https://docs.dbos.dev/typescript/tutorials/step-tutorial#configurable-retries",
        promises: "Runs each step at least once, and not again once its result is recorded; asks for idempotent steps."
      },
      {
        name: "tuned",
        documentation:
          "Steps, filtering retries, https://docs.dbos.dev/typescript/tutorials/step-tutorial#filtering-retries-with-shouldretry",
        promises:
          "Retries only what cannot pay twice; after a crash the step still runs again, as DBOS promises no step at most once."
      }
    ],
    needsServer: false,
    needsOwnPackages: true
  },
  {
    name: "restate",
    program: "restate.ts",
    versions: {
      "@restatedev/restate-server": versionOf("@restatedev/restate-server"),
      "@restatedev/restate-sdk": versionOf("@restatedev/restate-sdk")
    },
    variants: [
      {
        name: "default",
        documentation: "Microservice Orchestration, https://docs.restate.dev/use-cases/microservice-orchestration",
        promises:
          "Repeats a step until its result is recorded; asks for idempotency keys. Uses no PostgreSQL, so its faults do not reach it."
      },
      {
        name: "tuned",
        documentation: "Service Configuration, retries, https://docs.restate.dev/services/configuration#retries",
        promises:
          "Pauses for a person after one attempt; its server counts attempts anew when it starts. Uses no PostgreSQL, so its faults do not reach it."
      }
    ],
    needsServer: true,
    needsOwnPackages: true
  },
  {
    name: "graphile-worker",
    program: "graphileWorker.ts",
    versions: { "graphile-worker": versionOf("graphile-worker") },
    variants: [
      {
        name: "default",
        documentation: "Introduction, reliable, https://worker.graphile.org/docs#reliable",
        promises: "Runs each job at least once; the job of a killed worker waits for four hours."
      },
      {
        name: "tuned",
        documentation: "addJob(), https://worker.graphile.org/docs/library/add-job",
        promises: "Runs each job at most once (`maxAttempts: 1`), as long as the database loses no commit."
      }
    ],
    needsServer: false,
    needsOwnPackages: false
  },
  {
    name: "pg-boss",
    program: "pgBoss.ts",
    versions: { "pg-boss": versionOf("pg-boss") },
    variants: [
      {
        name: "default",
        documentation: "Queues, retry and heartbeat, https://pgboss.io/api/queues",
        promises: "Delivers a job exactly once, and again after a failure or a lost heartbeat."
      },
      {
        name: "tuned",
        documentation: "Queues, dead letter queue, https://pgboss.io/api/queues",
        promises:
          "Delivers a job once (`retryLimit: 0`), as long as the database loses no commit; the rest waits for a person."
      }
    ],
    needsServer: false,
    needsOwnPackages: false
  }
]

/** Services that a contestant recommends, and that are not compared. */
export const notRun = [
  {
    name: "DBOS Conductor",
    documentation:
      "DBOS Conductor, https://docs.dbos.dev/production/conductor, and its licence, https://docs.dbos.dev/production/hosting-conductor",
    adds:
      "Would let another executor recover the workflows of one that ended or hangs, sooner than its restart. The step then runs again, as after a restart. A separate service under a commercial licence."
  }
]
