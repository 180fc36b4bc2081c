import * as os from "node:os"
import { fileURLToPath } from "node:url"
import { defaultServerConditions } from "vite"
import { defineConfig } from "vitest/config"

// Tests start hundreds of processes. With a cache of compiled code each of them starts in half of the time.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/node-compile", import.meta.url))

/** What all projects share. The timeouts only end what hangs: no test measures time. */
const shared = {
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // Many tests wait for processes and sockets.
  maxWorkers: Math.ceil(os.availableParallelism() * 1.5)
}

/** One PostgreSQL for the run. */
const globalSetup = ["test/fixtures/PostgresServer.ts"]

export default defineConfig({
  test: {
    projects: [
      { test: { ...shared, name: "unit", include: ["test/unit/**/*.test.ts"], isolate: false } },
      { test: { ...shared, name: "postgres", include: ["test/postgres/**/*.test.ts"], globalSetup, isolate: false } },
      {
        // The examples import the package by its name; this finds the source.
        ssr: { resolve: { conditions: [...defaultServerConditions, "gateway-source"] } },
        test: {
          ...shared,
          name: "system",
          include: ["test/system/**/*.test.ts"],
          isolate: false,
          globalSetup: [...globalSetup, "test/fixtures/CommandBundle.ts"],
          // GitHub's parser of workflows imports JSON as bundlers do, and Node does not.
          server: { deps: { inline: [/@actions\//] } }
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
