/**
 * A bank refuses the key of two workers while clients go on paying. Then the key is corrected. One worker is restarted
 * meanwhile, as an operator would.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Fiber, Layer, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as readline from "node:readline"
import { fileURLToPath } from "node:url"
import {
  ClientId,
  type GrantIdentity,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "../../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { LocalPostgres } from "../../../../src/node/embedded/LocalPostgres.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { migrate } from "../../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { type Bank, makeBank } from "./Bank.ts"

/** The environment variable with the `WorkerConfig` of a worker, as JSON. */
export const workerVariable = "WRONG_KEY_WORKER"

export interface WorkerConfig {
  readonly bankUrl: string
  readonly keyFile: string
  readonly connection: {
    readonly host: string
    readonly port: number
    readonly username: string
    readonly database: string
  }
}

export interface WrongKeyOptions {
  /** Payments that clients request in one second. */
  readonly rate: number
  /** The key is wrong until this effect ends. */
  readonly wrong: (bank: Bank) => Effect.Effect<void>
}

export interface WrongKeyResult {
  readonly accepted: number
  /** Operations by state while the key was wrong, just before it was corrected. */
  readonly statesBefore: Readonly<Record<string, number>>
  readonly statesAfter: Readonly<Record<string, number>>
  /** Payments that the bank carried out, and those that it carried out more than once. */
  readonly paid: number
  readonly paidTwice: number
  /** Submissions that the bank refused for their key. */
  readonly refused: number
  /** The first line of the log that gives the reason, and its delay after the first refusal in milliseconds. */
  readonly firstWarning: string | null
  readonly warningDelay: number
  /** Milliseconds from the correction of the key until the last operation was settled. */
  readonly settledWithin: number
  /** Exit codes of the workers. */
  readonly exits: ReadonlyArray<number | null>
}

interface Worker {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
}

interface Warning {
  readonly at: number
  readonly line: string
}

const startWorker = (config: WorkerConfig, warnings: Array<Warning>): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [fileURLToPath(new URL("worker.ts", import.meta.url))], {
        env: {
          PATH: process.env["PATH"],
          NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
          [workerVariable]: JSON.stringify(config)
        },
        stdio: ["ignore", "pipe", "pipe"]
      })
      const ended = once(child, "close").then(([code]) => code as number | null)
      readline.createInterface({ input: child.stderr }).on("line", (line) => {
        if (line.includes("WARN")) warnings.push({ at: Date.now(), line })
      })
      await Promise.race([once(child.stdout, "data"), ended])
      return { child, ended }
    }),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGTERM")
        return ended
      })
  )

const stopWorker = ({ child, ended }: Worker) =>
  Effect.promise(() => {
    child.kill("SIGTERM")
    return ended
  })

const statesOf = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ readonly state: string; readonly count: number }>`
      SELECT state, count(*)::integer AS count FROM operations GROUP BY state`,
    (rows) => Object.fromEntries(rows.map(({ count, state }) => [state, count]))
  )

const unsettledIn = (states: Readonly<Record<string, number>>) =>
  Object.entries(states).reduce(
    (total, [state, count]) => ["succeeded", "failed", "cancelled"].includes(state) ? total : total + count,
    0
  )

const issueGrant = Grants.use((grants) =>
  grants.issue({
    resource_owner: ResourceOwner.make("owner"),
    subject: PairwiseSubject.make("subject"),
    client_id: ClientId.make("client"),
    provider: ProviderName.make("bank"),
    scopes: [operationsRead],
    expires_in: Duration.days(1)
  })
)

/** Accepts payments at the rate until it is interrupted. */
const pay = (identity: GrantIdentity, rate: number, accepted: { count: number }) =>
  Effect.gen(function*() {
    const ledger = yield* OperationLedger
    const one = Effect.suspend(() =>
      ledger.accept(identity, {
        type: "payment",
        key: IdempotencyKey.make(`payment-${accepted.count++}`),
        payload: { amount: "1.00" }
      })
    )
    yield* Effect.forever(Effect.uninterruptible(one).pipe(Effect.andThen(Effect.sleep(1000 / rate))))
  })

/** Runs the scenario on a PostgreSQL of its own. */
export const runWrongKey = ({ rate, wrong }: WrongKeyOptions) =>
  Effect.gen(function*() {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "wrong-key-"))),
      (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
    )
    const context = yield* Layer.build(LocalPostgres.layer({ dataDirectory: path.join(directory, "postgres") }))
    const { database, port, socketDirectory, username } = Context.get(context, LocalPostgres)
    const connection = { host: socketDirectory, port, username, database }
    const Database = PgClient.layer({ ...connection, maxConnections: 4 })
    return yield* scenario({ connection, directory, rate, wrong }).pipe(
      Effect.provide(Layer.mergeAll(Grants.layer, OperationLedger.layer).pipe(Layer.provideMerge(Database)))
    )
  }).pipe(Effect.scoped)

const scenario = Effect.fnUntraced(function*(
  { connection, directory, rate, wrong }: WrongKeyOptions & {
    readonly connection: WorkerConfig["connection"]
    readonly directory: string
  }
) {
  const sql = yield* SqlClient.SqlClient
  yield* migrate
  const { grant } = yield* issueGrant
  const bank = yield* makeBank("right")
  const keyFile = path.join(directory, "key")
  fs.writeFileSync(keyFile, "wrong")
  const warnings: Array<Warning> = []
  const worker = startWorker({ bankUrl: bank.url, keyFile, connection }, warnings)
  const first = yield* worker
  const second = yield* worker

  const accepted = { count: 0 }
  const paying = yield* Effect.forkChild(
    pay({ grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }, rate, accepted)
  )
  yield* wrong(bank)
  const exits = [yield* stopWorker(first)]
  const third = yield* worker
  yield* wrong(bank)

  const statesBefore = yield* statesOf(sql)
  const refused = bank.refusals.length
  const corrected = Date.now()
  fs.writeFileSync(keyFile, "right")
  yield* Effect.sleep("1 second")
  yield* Fiber.interrupt(paying)
  const settled = yield* Effect.repeat(Effect.delay(statesOf(sql), "100 millis"), {
    until: (states) => unsettledIn(states) === 0
  })
  const settledWithin = Date.now() - corrected
  exits.push(yield* stopWorker(second), yield* stopWorker(third))

  const firstWarning = warnings.find(({ line }) => line.includes("the bank does not know the key"))
  return {
    accepted: accepted.count,
    statesBefore,
    statesAfter: settled,
    paid: bank.payments.size,
    paidTwice: [...bank.payments.values()].filter((times) => times > 1).length,
    refused,
    firstWarning: firstWarning?.line ?? null,
    warningDelay: (firstWarning?.at ?? Infinity) - bank.refusals[0]!,
    settledWithin,
    exits
  } satisfies WrongKeyResult
})
