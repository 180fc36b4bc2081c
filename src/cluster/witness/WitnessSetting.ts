/**
 * Connects to the witness that `WITNESS` names.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as fs from "node:fs/promises"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import * as ProviderHttpClient from "../../node/http/ProviderHttpClient.ts"
import { Database } from "../../node/postgres/Database.ts"
import { WorkerPool } from "../../node/postgres/Pools.ts"
import { orUnavailable } from "../../services/StoreUnavailable.ts"
import { makeEtcdWitness } from "./EtcdWitness.ts"
import { clusterOf, makePostgresWitness } from "./PostgresWitness.ts"
import { makeSqlVerifications } from "./SqlVerifications.ts"
import { makeWitnessedClaims } from "./WitnessedClaims.ts"
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

/** Makes the recorder of the workers, which use the database as the writer. Connects to the witness that the URL names. */
export const claimRecorderOf = (setting: Redacted.Redacted, database: Database["Service"]) => () =>
  Effect.gen(function*() {
    const address = yield* Effect.try({
      try: () => readWitnessUrl(Redacted.value(setting)),
      catch: (error) => error instanceof InvalidSetting ? error : new InvalidSetting({ message: "WITNESS is invalid" })
    })
    const ledger = yield* Layer.build(WorkerPool)
    const verifications = yield* Effect.provide(makeSqlVerifications, ledger)
    const store = address._tag === "Etcd" ? yield* etcd(address) : yield* Effect.provide(postgres(address), ledger)
    return makeWitnessedClaims(store, verifications)
  }).pipe(Effect.provideService(Database, database), orUnavailable)
