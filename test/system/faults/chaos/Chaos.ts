/**
 * A chaos run: four workers, the sandbox and PostgreSQL as real processes, and every fault while operations are
 * accepted. At the end the run waits without faults until operations are settled, and is then judged.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Schedule } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as PgAcceptanceSignal from "../../../../src/node/postgres/PgAcceptanceSignal.ts"
import type { FaultSettings } from "../../../../src/sandbox/Faults.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { migrate } from "../../../../src/services/Migrations.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { Proxy } from "../../../fixtures/Proxy.ts"
import { acceptAll, type Acceptance, issueGrants } from "../kit/Clients.ts"
import { Crew } from "../kit/Crew.ts"
import { makeDice } from "../kit/Dice.ts"
import { type Evidence, noteReturns, readLedger } from "../kit/Evidence.ts"
import { abandoned } from "../kit/Judge.ts"
import type { PlantedBug } from "../kit/Plan.ts"
import { Platform } from "../kit/Platform.ts"
import { makePostgres, type Postgres } from "../kit/Postgres.ts"
import { type Sample, sampleInto } from "../kit/Sampler.ts"
import { SandboxProcess } from "../kit/SandboxProcess.ts"
import { dealFaults } from "./Faults.ts"
import { makeInjector } from "./Injector.ts"

export interface ChaosOptions {
  readonly operations: number
  /** Faults of processes and networks. Those of the sandbox are added at their rates. 0: none at all. */
  readonly faults: number
  readonly seed: string
  /** Seconds that the run may take, without settling. Faults and requests after that are missing in the figures. */
  readonly duration: number
  /** Seconds that settling may take. Operations settle within 90 if the engine keeps its rules. */
  readonly settling?: number
  readonly bug?: PlantedBug
  readonly say?: (line: string) => void
}

const workers = 4

/** Requests and faults a second, at most as many as two cores can serve. */
const pace = { operations: 60, faults: 4 }

/** The faults of the sandbox during the run. */
const sandboxFaults: FaultSettings = {
  slow: { rate: 0.05, ms: 300 },
  refuse_connection: { rate: 0.02 },
  drop_response: { rate: 0.03 },
  bad_gateway: { rate: 0.02 },
  reset_mid_body: { rate: 0.02 },
  garbage_body: { rate: 0.02 },
  late: { rate: 0.02, ms: 3000 },
  not_found_for: { rate: 0.1, ms: 1500 },
  duplicate_key_rejected: { rate: 0.5 },
  flapping_status: { rate: 0.05, reads: 4 },
  foreign_answer: { rate: 0.03 },
  lose: { rate: 0.01 }
}

/** A directory that is removed when the scope closes. */
const workspace = Effect.acquireRelease(
  Effect.sync(() => fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "chaos-")))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 }))
)

/** The processes, and the networks between them. */
export const makeScene = Effect.fnUntraced(function*(options: ChaosOptions) {
  const directory = yield* workspace
  const postgres = yield* makePostgres(path.join(directory, "postgres"))
  const direct = PgClient.layer({ ...postgres.connection, maxConnections: 3 })
  yield* Effect.andThen(migrate, noteReturns).pipe(Effect.provide(Layer.fresh(direct)), Effect.provide(Platform))
  const sandbox = new SandboxProcess({ directory, seed: options.seed, faults: sandboxFaults })
  yield* Effect.acquireRelease(
    Effect.promise(() => sandbox.start()),
    () => Effect.promise(() => sandbox.close())
  )
  const clientLink = new Proxy(postgres.target)
  const clientPort = yield* Effect.acquireRelease(
    Effect.promise(() => clientLink.listen()),
    () => Effect.sync(() => clientLink.close())
  )
  const crew = new Crew({
    size: workers,
    directory,
    databaseTarget: postgres.target,
    sandboxTarget: { host: "127.0.0.1", port: sandbox.port },
    username: postgres.connection.username,
    database: postgres.connection.database,
    bug: options.bug ?? null
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => crew.start()),
    () => Effect.promise(() => crew.close())
  )
  return { directory, postgres, direct, sandbox, clientLink, clientPort, crew }
})

type Scene = Effect.Success<ReturnType<typeof makeScene>>

/** The ledger of the clients, over a network that fails. */
export const clients = ({ clientPort, postgres }: Scene) =>
  OperationLedger.layer.pipe(
    Layer.provide(PgAcceptanceSignal.layer),
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
    Effect.timeout("1 minute"),
    Effect.orDie
  )

/** Accepts operations and injects faults concurrently, until both are done. */
const rage = Effect.fnUntraced(function*(scene: Scene, options: ChaosOptions, acceptances: Array<Acceptance>) {
  const grants = yield* issueGrants.pipe(
    Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provide(scene.direct), Layer.provideMerge(Platform))))
  )
  const { crew, clientLink, postgres, sandbox } = scene
  const deck = options.faults === 0 ? [] : dealFaults(options.faults, makeDice(options.seed, "deck"))
  const seconds = Math.max(options.operations / pace.operations, deck.length / pace.faults)
  const [start, spacing] = [Date.now(), seconds * 1000 / options.operations]
  const injector = makeInjector({
    deck,
    dice: makeDice(options.seed, "faults"),
    crew,
    clientLink,
    crashPostgres: Effect.orDie(postgres.crash),
    crashSandbox: Effect.promise(() => sandbox.crash()),
    // Faults wait for operations that are late.
    due: (index) =>
      acceptances.length / options.operations < index / deck.length
        ? Infinity
        : start + index * seconds * 1000 / deck.length
  })
  let isInjecting = true
  const inject = Effect.tap(injector.run, () =>
    Effect.sync(() => {
      isInjecting = false
      options.say?.(`all ${injector.injected.length} faults happened`)
    }))
  const accept = acceptAll({
    grants,
    dice: makeDice(options.seed, "clients"),
    acceptances,
    // Requests continue while there are faults, and end soon after them if the faults are late.
    pause: (index) => {
      if (index >= options.operations && !isInjecting) return null
      const isAhead = index / options.operations > injector.injected.length / deck.length + 0.1
      return isAhead ? spacing * 5 : spacing
    }
  }).pipe(Effect.provide(clients(scene)))
  yield* Effect.all([inject, accept], { concurrency: "unbounded", discard: true }).pipe(
    Effect.timeoutOrElse({
      duration: options.duration * 1000,
      orElse: () => Effect.sync(() => options.say?.("the duration has ended"))
    })
  )
  return injector.injected
})

/** Waits until every operation that can be settled is settled. The judge finds the others. */
const settle = Effect.fnUntraced(function*({ sandbox }: Scene, seconds: number) {
  yield* Effect.gen(function*() {
    const { operations } = yield* readLedger
    const [receipts, truths] = yield* Effect.promise(() => Promise.all([sandbox.record(), sandbox.truths()]))
    return abandoned({ operations, receipts, truths }).length
  }).pipe(
    Effect.repeat({ until: (left) => left === 0, schedule: Schedule.spaced("1 second") }),
    Effect.timeoutOption(seconds * 1000)
  )
})

/** Loops that died in a worker that continued. Only its log shows them. */
const deadLoops = ({ crew, directory }: Scene): ReadonlyArray<string> =>
  crew.workers.flatMap(({ name }) =>
    fs.readFileSync(path.join(directory, `${name}.log`), "utf8").split("\n")
      .filter((line) => line.includes(`"level":"FATAL"`)).map((line) => `${name}: ${line}`)
  )

const progress = (samples: ReadonlyArray<Sample>, crew: Crew, postgres: Postgres, say: (line: string) => void) =>
  Effect.sync(() => {
    const last = samples.at(-1)
    if (last === undefined) return
    const counts = Object.entries(last.counts).map(([state, count]) => `${state} ${count}`)
    say(`${counts.join(", ")}; workers started ${crew.starts}, database down ${postgres.outages.length} times`)
  }).pipe(Effect.repeat(Schedule.spaced("10 seconds")))

/** Runs, and returns the evidence for the judge. All processes end and all files are removed when its scope closes. */
export const runChaos = Effect.fnUntraced(function*(options: ChaosOptions) {
  const say = options.say ?? (() => {})
  const scene = yield* makeScene(options)
  const { crew, postgres, sandbox } = scene
  const samples: Array<Sample> = []
  const acceptances: Array<Acceptance> = []
  const looking = Effect.provide(sampleInto(samples), Layer.fresh(scene.direct))
  yield* Effect.forkScoped(looking)
  yield* Effect.forkScoped(progress(samples, crew, postgres, say))
  yield* everyoneWorks(scene)
  say("everyone works")
  const injected = yield* rage(scene, options, acceptances)
  yield* Effect.promise(() => sandbox.behave())
  yield* everyoneWorks(scene)
  say("settling")
  yield* Effect.provide(settle(scene, options.settling ?? 90), Layer.fresh(scene.direct))
  const ends = yield* Effect.promise(() => crew.drain())
  const undrained = ends.filter(({ code }) => code !== 0).map(({ code, signal }) =>
    `after SIGTERM, a worker ended with code ${code}, signal ${signal}`
  )
  const ledger = yield* Effect.provide(readLedger, Layer.fresh(scene.direct))
  return {
    asked: options,
    acceptances,
    ...ledger,
    receipts: yield* Effect.promise(() => sandbox.record()),
    truths: yield* Effect.promise(() => sandbox.truths()),
    sent: crew.sent.counts,
    injected,
    samples,
    outages: postgres.outages,
    deaths: [...crew.deaths, ...undrained, ...deadLoops(scene)],
    workerStarts: crew.starts
  } satisfies Evidence
}, Effect.scoped)
