import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/fixtures/PostgresServer.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // One process fewer than there are processors would leave half of a machine of two idle.
    maxWorkers: "100%",
    // GitHub's parser of workflows imports JSON as bundlers do, and Node does not.
    server: { deps: { inline: [/@actions\//] } },
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      reporter: ["text", "json-summary"]
    }
  }
})
