/**
 * Connects to the witness that `WITNESS` names. It is a URL in the environment, because it may hold a password.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as fs from "node:fs/promises"
import * as ProviderHttpClient from "../../node/http/ProviderHttpClient.ts"
import type { Database } from "../../node/postgres/Database.ts"
import { WorkerPool } from "../../node/postgres/Pools.ts"
import { InvalidSetting } from "../../node/settings/InvalidSetting.ts"
import { makeEtcdWitness } from "./EtcdWitness.ts"
import { clusterOf, makePostgresWitness } from "./PostgresWitness.ts"
import { Witness, type WitnessStore } from "./Witness.ts"
import { readWitnessUrl, type WitnessAddress, type WitnessTls } from "./witnessUrl.ts"

const readFile = (
  name: keyof WitnessTls,
  file: string | undefined
): Effect.Effect<string | undefined, InvalidSetting> =>
  file === undefined ? Effect.succeed(undefined) : Effect.tryPromise({
    try: () => fs.readFile(file, "utf8"),
    catch: () => new InvalidSetting({ message: `WITNESS: the file of its parameter ${name} cannot be read` })
  })

type Of<Tag> = Extract<WitnessAddress, { readonly _tag: Tag }>

const etcd = Effect.fnUntraced(function*({ tls, ...address }: Of<"Etcd">) {
  const [ca, cert, key] = [
    yield* readFile("cacert", tls.cacert),
    yield* readFile("cert", tls.cert),
    yield* readFile("key", tls.key)
  ]
  const context = yield* Layer.build(ProviderHttpClient.layer({
    connectTimeout: "1 second",
    connections: 16,
    keepAlive: "10 seconds",
    tls: {
      ...ca === undefined ? {} : { ca },
      ...cert === undefined ? {} : { cert },
      ...key === undefined ? {} : { key: Redacted.make(key) }
    }
  }))
  return makeEtcdWitness(Context.get(context, HttpClient.HttpClient), address)
})

/** The driver's own pool: the witness needs nothing of the ledger's pools. */
const postgres = Effect.fnUntraced(function*({ url }: Of<"Postgres">) {
  const context = yield* Layer.build(PgClient.layer({
    url,
    applicationName: "financial-agents-gateway",
    maxConnections: 4,
    connectionTTL: "30 seconds",
    connectTimeout: "1 second",
    startupParameters: {
      default_transaction_isolation: "read committed",
      statement_timeout: "1500",
      lock_timeout: "1000",
      idle_in_transaction_session_timeout: "5000"
    }
  }))
  const ledger = yield* SqlClient.SqlClient
  const { ready, store } = makePostgresWitness(Context.get(context, SqlClient.SqlClient), clusterOf(ledger))
  yield* ready.pipe(
    Effect.catchTag("UnsuitableWitness", ({ message }) => Effect.fail(new InvalidSetting({ message }))),
    // It may answer later. Until then, nothing is sent.
    Effect.catchTag(
      "WitnessUnavailable",
      ({ reason }) =>
        Effect.annotateLogs(Effect.logWarning("The witness does not answer; nothing is sent until it does"), { reason })
    )
  )
  return store
})

/** The witness of the workers, and none without `WITNESS`. */
export const layerWitness: Layer.Layer<never, InvalidSetting | Config.ConfigError | SqlError, Database> = Layer.effect(
  Witness,
  Effect.gen(function*() {
    const setting = yield* Config.option(Config.Redacted("WITNESS"))
    if (Option.isNone(setting)) return null
    const address = yield* Effect.try({
      try: () => readWitnessUrl(Redacted.value(setting.value)),
      catch: (error) => error instanceof InvalidSetting ? error : new InvalidSetting({ message: "WITNESS is invalid" })
    })
    const store: Effect.Effect<WitnessStore, InvalidSetting | SqlError, Database | Scope.Scope> =
      address._tag === "Etcd"
        ? etcd(address)
        : Effect.provide(postgres(address), WorkerPool)
    return yield* store
  })
)
