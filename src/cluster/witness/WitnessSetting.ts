/** Connects to the witness that `WITNESS` names. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as fs from "node:fs/promises"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { loopbackHosts } from "../../http/OutgoingRequest.ts"
import * as ProviderHttpClient from "../../node/http/ProviderHttpClient.ts"
import { Database } from "../../node/postgres/Database.ts"
import { readDatabaseUrl } from "../../node/postgres/driver/databaseUrl.ts"
import { WorkerPool } from "../../node/postgres/Pools.ts"
import { orUnavailable } from "../../services/StoreUnavailable.ts"
import { type EtcdWitnessOptions, makeEtcdWitness } from "./EtcdWitness.ts"
import { clusterOf, makePostgresWitness } from "./PostgresWitness.ts"
import { makeSqlVerifications } from "./Verifications.ts"
import { makeWitnessedClaims } from "./WitnessedClaims.ts"

/** Files in PEM. */
interface WitnessTls {
  readonly cacert?: string
  readonly cert?: string
  readonly key?: string
}

type WitnessAddress =
  | Omit<EtcdWitnessOptions, "timeout"> & { readonly _tag: "Etcd"; readonly tls: WitnessTls }
  | { readonly _tag: "Postgres"; readonly url: Redacted.Redacted<string> }

/** Repeats nothing of the URL but names of parameters, because the rest may be a password. */
const invalid = (message: string) => new InvalidSetting({ message: `WITNESS ${message}` })

const forms =
  "must be etcd://HOST:PORT[,HOST:PORT…]/PREFIX, etcds://… for TLS, or postgres://USER:PASSWORD@HOST/DATABASE"

const parts =
  /^etcd(?<secure>s?):\/\/(?:(?<user>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?:\/(?<prefix>[^?#]*))?(?:\?(?<query>[^#]*))?$/u

const files = ["cacert", "cert", "key"] as const

const decode = (text: string, of: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid(`has an invalid ${of}: percent-encode its special characters`)
  }
}

const readUser = (text: string | undefined) => {
  if (text === undefined) return null
  const [name = "", ...rest] = text.split(":")
  if (name === "" || rest.length !== 1 || rest[0] === "") {
    throw invalid("must have a user and a password before the @, or neither")
  }
  return { name: decode(name, "user"), password: Redacted.make(decode(rest[0]!, "password")) }
}

const readEndpoint = (host: string, scheme: string): string => {
  const url = `${scheme}://${host.includes(":") ? host : `${host}:2379`}`
  if (host === "" || !URL.canParse(url)) throw invalid("has an invalid host or port")
  return url
}

/** There is no default: two ledgers with one prefix would hold each other's operations. */
const readPrefix = (text: string): string => {
  const prefix = decode(text, "prefix").replace(/(?<!\/)\/+$/, "")
  if (prefix === "") throw invalid("needs a prefix that no other ledger uses: end the hosts with /PREFIX")
  return prefix
}

const readFiles = (query: string, isSecure: boolean): WitnessTls => {
  const parameters = new URLSearchParams(query)
  for (const name of parameters.keys()) {
    if (!files.some((file) => file === name)) throw invalid("has an unsupported parameter: use cacert, cert and key")
    if (parameters.getAll(name).length > 1) throw invalid(`has the parameter ${name} more than once`)
    if (parameters.get(name) === "") throw invalid(`has an empty ${name}`)
  }
  if (parameters.size > 0 && !isSecure) throw invalid("has certificates without TLS: begin it with etcds://")
  if (parameters.has("cert") !== parameters.has("key")) throw invalid("needs both of cert and key, or neither")
  return Object.fromEntries(parameters) as WitnessTls
}

const readPostgres = (text: string): WitnessAddress => {
  const { urls } = (() => {
    try {
      return readDatabaseUrl(text)
    } catch (error) {
      throw invalid(error instanceof Error ? `is invalid: ${error.message}` : "is invalid")
    }
  })()
  if (urls.length > 1) throw invalid("takes one host of PostgreSQL, such as a virtual address")
  return { _tag: "Postgres", url: Redacted.make(urls[0]) }
}

/** Reads the setting. Throws `InvalidSetting`, also for what the gateway does not support: nothing is ignored. */
export const readWitnessUrl = (setting: string): WitnessAddress => {
  // A file with the URL may end in a line break.
  const text = setting.trim()
  if (/^postgres(?:ql)?:\/\//iu.test(text)) return readPostgres(text)
  const { hosts, prefix = "", query = "", secure, user } = parts.exec(text)?.groups ?? {}
  if (hosts === undefined) throw invalid(forms)
  const scheme = secure === "s" ? "https" : "http"
  const [first, ...others] = hosts.split(",").map((host) => readEndpoint(host, scheme))
  const address: WitnessAddress = {
    _tag: "Etcd",
    endpoints: [first!, ...others],
    user: readUser(user),
    tls: readFiles(query, secure === "s"),
    prefix: readPrefix(prefix)
  }
  const isRemote = address.endpoints.some((endpoint) => !loopbackHosts.has(new URL(endpoint).hostname))
  if (address.user !== null && secure !== "s" && isRemote) {
    throw invalid("would send its password over the network without TLS: begin it with etcds://")
  }
  return address
}

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
