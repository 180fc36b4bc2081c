import * as os from "node:os"
import { fileURLToPath } from "node:url"
import { defaultServerConditions } from "vite"
import { defineConfig } from "vitest/config"
import { temporaryDirectory } from "./test/fixtures/postgres/storage.ts"

// Tests start hundreds of processes. With a cache of compiled code each of them starts in half of the time.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/node-compile", import.meta.url))

process.env["TMPDIR"] = temporaryDirectory()

/** What all projects share. The timeouts only end what hangs: no test measures time. */
const common = {
  testTimeout: 180_000,
  hookTimeout: 180_000,
  isolate: false,
  // Many tests wait for processes and sockets.
  maxWorkers: Math.ceil(os.availableParallelism() * 1.5)
}

const shared = "test/fixtures/MadeOnce.ts"
const postgres = [shared, "test/fixtures/postgres/PostgresServer.ts"]

/** For tests that start processes. */
const globalSetup = [...postgres, "test/fixtures/processes/CommandBundle.ts"]
// The examples import the package by its name; this finds the source.
const ssr = { resolve: { conditions: [...defaultServerConditions, "gateway-source"] } }

const services = "test/postgres/services"

/**
 * What runs again on the oldest PostgreSQL that Debian has: only what an older version can break. It lacks a function or a privilege,
 * which the first run of each statement, trigger and migration shows, or it chooses another plan. Locks, races and rows are the same in all
 * versions, so the other files run once. A statement that none of these files runs needs one here.
 */
const onOldest = [
  "test/postgres/cluster/**/*.test.ts",
  "test/postgres/node/postgres/driver/DriverClient.test.ts",
  `${services}/{Readiness,StoreUnavailable}.test.ts`,
  `${services}/grants/{Grants,GrantsRegistration,GrantsRevocation,Standing}.test.ts`,
  `${services}/ledger/{Acceptance,Payloads,Terms,Transitions}.test.ts`,
  `${services}/operators/*.test.ts`,
  `${services}/queue/{OutcomeBatches,ProviderLimits,QueueModel,ReturnedClaimsInPostgres,StatusReads}.test.ts`,
  `${services}/reads/*.test.ts`,
  `${services}/schema/{ForbiddenStatements,ForgedDates,Migrations,Storage,Triggers}.test.ts`,
  `${services}/verification/*.test.ts`,
  "test/long/costs/{AcceptPlans,ChangeFeedPlans,FiguresCost,FindByKeyCost,GrantCheckCost,ListCost,OperationSearchCost,PayloadCost,QueueCost}.test.ts"
]

export default defineConfig({
  test: {
    projects: [
      { test: { ...common, name: "unit", include: ["test/unit/**/*.test.ts"] } },
      { test: { ...common, name: "postgres", include: ["test/postgres/**/*.test.ts"], globalSetup: postgres } },
      {
        ssr,
        test: { ...common, name: "system", include: ["test/system/**/*.test.ts"], globalSetup }
      },
      {
        ssr,
        test: {
          ...common,
          name: "long",
          include: ["test/long/**/*.test.ts"],
          globalSetup: ["test/fixtures/package/DebianPackages.ts", ...globalSetup]
        }
      },
      {
        test: {
          ...common,
          name: "oldest-postgres",
          include: onOldest,
          globalSetup: [shared, "test/fixtures/postgres/OldestPostgresServer.ts"]
        }
      }
    ],
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      reporter: ["text", "json-summary"]
    }
  }
})
