/**
 * The scene of a run: workers, the sandbox and PostgreSQL as real processes, clients of the ledger, and the networks between them.
 * `observe` runs a scenario on it, waits until the operations are settled, and returns the evidence for the judge.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Schedule } from "effect"
import * as path from "node:path"
import { isTerminal, operationStates } from "../../../../src/domain/Operation.ts"
import { PgAcceptanceSignal } from "../../../../src/node/postgres/PgAcceptanceSignal.ts"
import type { FaultSettings } from "../../../../src/sandbox/Faults.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { migrate } from "../../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { bundleInto } from "../../../fixtures/processes/CommandBundle.ts"
import { Proxy } from "../../../fixtures/processes/Proxy.ts"
import { temporaryDirectory } from "../../../fixtures/TemporaryDirectory.ts"
import { type Bank, type BankName, banks } from "./Banks.ts"
import { type Acceptance, issueGrants, type Spenders } from "./Clients.ts"
import { Crew } from "./Crew.ts"
import {
  type Evidence,
  type FinalOperation,
  type Injected,
  noteReturns,
  readLedger,
  readOperations,
  type Sample,
  sampleInto
} from "./Evidence.ts"
import { abandoned } from "./Judge.ts"
import type { MistakeName } from "./Mistakes.ts"
import { newKeys } from "./OpenBanking.ts"
import { providersOf } from "./Plan.ts"
import { makePostgres, Platform } from "./Postgres.ts"
import { makeSandbox } from "./Sandbox.ts"

export interface SceneOptions {
  readonly seed: string
  readonly workers: number
  /** Faults of the provider, until the scenario ends. */
  readonly faults: FaultSettings
  readonly mistake?: MistakeName
  /** Its simulator and its adapter, in place of those of the sandbox. */
  readonly bank?: BankName | null
}

/** The programs as bundles: a run starts them many times, and from their modules each start costs two seconds of CPU. */
const programs = (directory: string) =>
  Effect.promise(async () => ({
    worker: await bundleInto(directory, "test/long/faults/kit/worker.ts"),
    sandbox: await bundleInto(directory, "test/long/faults/kit/sandboxProcess.ts")
  }))

/** The processes, and the networks between them. */
export const makeScene = Effect.fnUntraced(function*(options: SceneOptions) {
  const { bank = null } = options
  const keys = newKeys()
  const directory = yield* temporaryDirectory
  const program = yield* programs(directory)
  const postgres = yield* makePostgres(path.join(directory, "postgres"))
  const direct = PgClient.layer({ ...postgres.connection, maxConnections: 3 })
  yield* Effect.andThen(migrate, noteReturns).pipe(Effect.provide(Layer.fresh(direct)), Effect.provide(Platform))
  const sandbox = yield* makeSandbox({
    program: program.sandbox,
    directory,
    seed: options.seed,
    faults: options.faults,
    bank,
    keys
  })
  const clientLink = new Proxy(postgres.target)
  const clientPort = yield* Effect.acquireRelease(
    Effect.promise(() => clientLink.listen()),
    () => Effect.sync(() => clientLink.close())
  )
  const crew = new Crew({
    program: program.worker,
    size: options.workers,
    directory,
    databaseTarget: postgres.target,
    sandboxTarget: { host: "127.0.0.1", port: sandbox.port },
    username: postgres.connection.username,
    database: postgres.connection.database,
    mistake: options.mistake ?? null,
    bank,
    keys
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => crew.start()),
    () => Effect.promise(() => crew.close())
  )
  /** By the key in the bank's record, the key of the request. */
  const requests = new Map<string, string>()
  const note = (recordKey: string, key: string) => void requests.set(recordKey, key)
  const order = bank === null ? null : yield* (banks[bank] as Bank).orders(sandbox.url, keys, note)
  return { bank, directory, postgres, direct, sandbox, clientLink, clientPort, crew, order, requests }
})

export type Scene = Effect.Success<ReturnType<typeof makeScene>>

/** One grant for each owner and provider. */
export const grantsOf = ({ bank, direct }: Scene, spenders: Spenders | null = null) =>
  issueGrants(providersOf(bank), spenders).pipe(
    Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provide(direct), Layer.provideMerge(Platform))))
  )

/** The provider's record, by ids of operations. */
const recordOf = Effect.fnUntraced(function*({ requests, sandbox }: Scene, operations: ReadonlyArray<FinalOperation>) {
  const ids = new Map(operations.map(({ id, key }) => [key, id]))
  const named = <A extends { readonly key: string }>(all: ReadonlyArray<A>): ReadonlyArray<A> =>
    requests.size === 0 ? all : all.map((one) => ({ ...one, key: ids.get(requests.get(one.key) ?? "") ?? one.key }))
  return { receipts: named(yield* sandbox.record), truths: named(yield* sandbox.truths) }
})

/** The ledger of the clients, over a network that fails. */
export const clients = ({ clientPort, postgres }: Scene) =>
  OperationLedger.layer.pipe(
    Layer.provide(PgAcceptanceSignal),
    Layer.provide(Layer.fresh(PgClient.layer({
      ...postgres.connection,
      host: "127.0.0.1",
      port: clientPort,
      multiplex: true,
      maxConnections: 4,
      connectionTTL: "5 seconds"
    }))),
    Layer.provideMerge(Platform)
  )

export const everyoneWorks = ({ crew }: Scene) =>
  Effect.sync(() => crew.workers.every(({ state }) => state === "running")).pipe(
    Effect.repeat({ until: (all) => all, schedule: Schedule.spaced("20 millis") }),
    Effect.timeout("5 minutes"),
    Effect.orDie
  )

/** Waits until every operation that can be settled is settled. The judge finds the others. */
const settle = (scene: Scene, seconds: number) =>
  Effect.gen(function*() {
    const unsettled = yield* readOperations(operationStates.filter((state) => !isTerminal(state)))
    // Any of these waits for a worker, so the record of the provider is not needed yet.
    if (unsettled.some(({ state }) => state === "accepted" || state === "submitting")) return false
    return abandoned({ operations: unsettled, ...yield* recordOf(scene, unsettled) }).length === 0
  }).pipe(
    // What was pending at the first look may have become final, and a worker must have time to read it.
    (look) => Effect.flatMap(look, (isSettled) => isSettled ? Effect.delay(look, "5 seconds") : Effect.succeed(false)),
    Effect.repeat({ until: (isSettled) => isSettled, schedule: Schedule.spaced("1 second") }),
    Effect.timeoutOption(seconds * 1000)
  )

/** Loops that died in a worker that continued. Only its log shows them. */
const deadLoops = ({ crew }: Scene): ReadonlyArray<string> =>
  crew.workers.flatMap(({ daemon }) =>
    daemon.lines.filter((line) => line.includes(`"level":"FATAL"`)).map((line) => `${daemon.name}: ${line}`)
  )

const progress = (samples: ReadonlyArray<Sample>, { crew, postgres }: Scene, say: (line: string) => void) =>
  Effect.sync(() => {
    const last = samples.at(-1)
    if (last === undefined) return
    const counts = Object.entries(last.counts).map(([state, count]) => `${state} ${count}`)
    say(`${counts.join(", ")}; workers started ${crew.starts}, database down ${postgres.outages.length} times`)
  }).pipe(Effect.repeat(Schedule.spaced("10 seconds")))

/** What a scenario needs besides the scene. */
export interface Observation {
  readonly asked: Evidence["asked"]
  readonly say: (line: string) => void
  /**
   * Seconds that settling may take. Operations settle within 90 if the engine keeps its rules, or within so long after the bank's promises
   * settle the last one. Status reads take turns, so thousands of operations need longer.
   */
  readonly settling?: number | undefined
  /** Adds to the acceptances, and yields the faults that it injected. The samples grow while it runs. */
  readonly scenario: (
    acceptances: Array<Acceptance>,
    samples: ReadonlyArray<Sample>
  ) => Effect.Effect<ReadonlyArray<Injected>, unknown>
}

/** Runs a scenario. The sandbox then behaves, the operations settle, and the workers end. */
export const observe = Effect.fnUntraced(function*(scene: Scene, { asked, say, scenario, ...limits }: Observation) {
  const bank: Bank | null = scene.bank && banks[scene.bank]
  const { settling = 90 + asked.operations / 50 + (bank?.settlesAfter ?? 0) / 1000 } = limits
  const { crew, direct, postgres, sandbox } = scene
  const samples: Array<Sample> = []
  const acceptances: Array<Acceptance> = []
  yield* Effect.forkScoped(Effect.provide(sampleInto(samples), Layer.fresh(direct)))
  yield* Effect.forkScoped(progress(samples, scene, say))
  yield* everyoneWorks(scene)
  say("everyone works")
  const injected = yield* Effect.orDie(scenario(acceptances, samples))
  yield* sandbox.endFaults
  yield* everyoneWorks(scene)
  say("settling")
  yield* Effect.provide(settle(scene, settling), Layer.fresh(direct))
  const ends = yield* Effect.promise(() => crew.drain())
  const undrained = ends.filter(({ code }) => code !== 0).map(({ code, signal }) =>
    `after SIGTERM, a worker ended with code ${code}, signal ${signal}`
  )
  const ledger = yield* Effect.provide(readLedger, Layer.fresh(direct))
  return {
    asked,
    acceptances,
    ...ledger,
    ...yield* recordOf(scene, ledger.operations),
    turnedAway: yield* sandbox.turnedAway,
    sent: crew.sent.counts,
    injected,
    samples,
    outages: postgres.outages,
    deaths: [...crew.deaths, ...undrained, ...deadLoops(scene)],
    workerStarts: crew.starts
  } satisfies Evidence
})
