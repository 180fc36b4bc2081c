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

/**
 * Tests that `oldest-postgres` leaves out. They hold rules of servers and drivers, which no version of PostgreSQL changes, and their
 * statements run in other tests of the project. `ChangeFeedCeiling` has an embedded server of its own.
 */
const ofAnyPostgres = [
  "test/long/costs/{ChangeFeedCeiling,ChangeFeedStorm,OperationSearchPages}.test.ts",
  "test/postgres/{metrics,operator}/**",
  "test/postgres/node/**/{closeSilent,forgetAnswered}.test.ts",
  "test/postgres/server/{ForgedChangeTokens,Fuzz,GrantStanding,GreedyLists,Limits,ListOperations}.test.ts",
  "test/postgres/server/{LostAnswers,LostDatabase,Ownership}.test.ts",
  "test/postgres/server/waits/**",
  "test/postgres/services/StoreUnavailable.test.ts",
  "test/postgres/services/queue/{ForeignEvidence,SlowClocks}.test.ts"
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
          include: ["test/{postgres,oldest}/**/*.test.ts", "test/long/costs/**/*.test.ts"],
          exclude: ofAnyPostgres,
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
