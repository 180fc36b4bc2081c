/** The layer of a cluster fills the ports of the core by the settings, and leaves the others as they are. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { makeHistoryGuard } from "../../../src/cluster/historyGuard.ts"
import * as PostgresCluster from "../../../src/cluster/PostgresCluster.ts"
import { Database } from "../../../src/node/postgres/Database.ts"
import { ReadServers, SessionResults } from "../../../src/node/postgres/driver/DriverClient.ts"
import { LedgerHistory } from "../../../src/services/queue/LedgerHistory.ts"
import { ClaimRecorders } from "../../../src/submission/attempts/ClaimRecorder.ts"

const ports = { LedgerHistory, SessionResults, ReadServers, ClaimRecorders }

const portsOf = (variables: Record<string, string>) =>
  Layer.build(PostgresCluster.layer).pipe(
    Effect.provide(
      Layer.succeed(Database, { isEmbedded: false, dataDirectory: null, connection: { host: "never-reached" } })
    ),
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))
  )

/** The names of the ports that the layer fills. */
const filledBy = (variables: Record<string, string>) =>
  Effect.map(
    portsOf(variables),
    (context) => Object.keys(ports).filter((name) => context.mapUnsafe.has(ports[name as keyof typeof ports].key))
  )

const settings = {
  DATABASE_SYNCHRONOUS: "required",
  DATABASE_READ_URL: "postgres://standby/gateway",
  WITNESS: "etcd://witness/gateway"
}

describe("The layer of a cluster", () => {
  it.effect("always watches the history of the ledger", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* filledBy({}), ["LedgerHistory"])
      assert.strictEqual(Context.get(yield* portsOf({}), LedgerHistory), makeHistoryGuard)
    }))

  it.effect("fills a port for each setting", () =>
    Effect.gen(function*() {
      const { DATABASE_SYNCHRONOUS, WITNESS, ...others } = settings
      assert.deepStrictEqual(yield* filledBy({ DATABASE_SYNCHRONOUS }), ["LedgerHistory", "SessionResults"])
      assert.deepStrictEqual(yield* filledBy({ WITNESS }), ["LedgerHistory", "ClaimRecorders"])
      assert.deepStrictEqual(
        yield* filledBy({ DATABASE_SYNCHRONOUS, ...others }),
        ["LedgerHistory", "SessionResults", "ReadServers"]
      )
    }))
})
