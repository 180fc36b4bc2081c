/**
 * Runs one program as several processes that share its port: starts them, replaces those that end, and drains all of
 * them when it stops. The supervisor answers no request, and keeps no connection to the database.
 *
 * `node:cluster` accepts each connection here and hands it to a process that is free, which costs once for each
 * connection. `reusePort` has no such step, but the system resets the connections in the queue of a process that ends,
 * two services can take one port unnoticed, and macOS and Windows do not balance.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import cluster, { type Worker } from "node:cluster"
import { environmentOf, type Listening, ProcessMessage } from "./SupervisedProcess.ts"

/** Options of a supervisor. */
export interface SupervisorOptions {
  /** How many run. Each takes the port, and has the program, arguments, Node options and environment of this process. */
  readonly processes: number
  /** Milliseconds for which a process waits for its running requests. Default: that of `Lifecycle`, 10 seconds. */
  readonly drainTimeout?: number
  /** Where they listen, for the log. */
  readonly listening: Listening
}

/** A process ended before it listened for the first time. */
export class ProcessNotStarted extends Schema.TaggedError<ProcessNotStarted>()("ProcessNotStarted", {
  message: Schema.String,
  /** Whether the process ended by a failure, which it printed already. */
  isReported: Schema.Boolean
}) {}

/** How a process ended: by itself, by a signal, or because the system could not create it. */
interface End {
  readonly process_pid?: number | undefined
  readonly code?: number | null
  readonly signal?: string | null
  readonly reason?: string
}

/** The place of a process. The next process takes it when one has ended. */
interface Place {
  /** From 1. */
  readonly number: number
  /** Milliseconds after SIGTERM until the process is killed. */
  readonly patience: number
  /** Done when a process of this place listened for the first time. */
  readonly started: Deferred.Deferred<void>
}

interface Child {
  readonly worker: Worker
  readonly ended: Deferred.Deferred<End>
}

/** Milliseconds for the end of a process beyond its drain timeout: 10 seconds for its connections, and a margin. */
const drainMargin = 15_000

/** Milliseconds. The end of a process that lived this long is no quick end. */
const soundAfter = 60_000

/** Milliseconds until the restart after a number of quick ends in a row: from 100 ms, doubled up to 30 s. */
export const restartDelay = (quickEnds: number): number => Math.min(30_000, 100 * 2 ** Math.max(0, quickEnds - 1))

const isMessage = Schema.is(ProcessMessage)

/** Handles the messages of a process. A question to all processes, such as for their metrics, gets its answers here. */
const receive = (message: unknown, started: Deferred.Deferred<void>): void => {
  if (isMessage(message)) Deferred.doneUnsafe(started, Effect.void)
}

/** Starts a process of the same program. */
const start = ({ number, patience, started }: Place): Child => {
  const ended = Deferred.makeUnsafe<End>()
  const end = (how: End) => Deferred.doneUnsafe(ended, Effect.succeed(how))
  const worker = cluster.fork(environmentOf(number, patience))
  worker.on("message", (message) => receive(message, started))
  worker.once("exit", (code, signal) => {
    const how = { process_pid: worker.process.pid, code, signal }
    // While its channel is open, Node may hand the dead process a connection, which would get no answer.
    if (!worker.isConnected()) return end(how)
    worker.once("disconnect", () => end(how))
    worker.process.disconnect()
  })
  worker.on("error", ({ message }) => {
    // Later errors concern messages. The exit is reported by itself.
    if (worker.process.pid === undefined) end({ reason: message })
  })
  return { worker, ended }
}

/** The process and its end for the log: only what applies of exit code, signal and reason. */
const annotationsOf = (number: number, end: End) => ({
  process: number,
  ...Object.fromEntries(Object.entries(end).filter(([, value]) => value !== null))
})

/** Asks a process to drain, unless it has ended. Kills it if it takes too long, and dies then. */
const drain = Effect.fnUntraced(function*({ number, patience }: Place, { ended, worker }: Child) {
  if (Deferred.isDoneUnsafe(ended)) return
  worker.process.kill("SIGTERM")
  const isOverdue = yield* Deferred.await(ended).pipe(
    Effect.as(false),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed(true) })
  )
  if (isOverdue) worker.process.kill("SIGKILL")
  const end = yield* Deferred.await(ended)
  yield* Effect.annotateLogs(Effect.logInfo("Process ended"), annotationsOf(number, end))
  if (isOverdue) {
    return yield* Effect.die(new Error(`process ${number} did not drain within ${patience / 1000} seconds: killed`))
  }
})

/** Runs a process until it ends. If this is interrupted, the process drains first. */
const runOnce = (place: Place): Effect.Effect<End> =>
  Effect.acquireUseRelease(
    Effect.try({
      try: () => start(place),
      catch: (error): End => ({ reason: error instanceof Error ? error.message : String(error) })
    }),
    (child) =>
      Effect.andThen(
        Effect.annotateLogs(Effect.logInfo("Process started"), {
          process: place.number,
          process_pid: child.worker.process.pid
        }),
        Deferred.await(child.ended)
      ),
    (child) => drain(place, child)
  ).pipe(Effect.catch(Effect.succeed))

const notStarted = (number: number, { code, reason, signal }: End): ProcessNotStarted =>
  new ProcessNotStarted({
    message: `process ${number} ended before it listened: ${reason ?? signal ?? `exit code ${code}`}`,
    isReported: typeof code === "number" && code !== 0
  })

/** Replaces the process each time that it ends. Fails if it ends before it listened for the first time. */
const keepRunning = Effect.fnUntraced(function*(place: Place) {
  let quickEnds = 0
  while (true) {
    const from = yield* Clock.currentTimeMillis
    const end = yield* runOnce(place)
    if (!Deferred.isDoneUnsafe(place.started)) return yield* notStarted(place.number, end)
    quickEnds = (yield* Clock.currentTimeMillis) - from < soundAfter ? quickEnds + 1 : 0
    const delay = restartDelay(quickEnds)
    yield* Effect.annotateLogs(Effect.logWarning("Process ended. It is replaced"), {
      ...annotationsOf(place.number, end),
      restart_in_ms: delay
    })
    yield* Effect.sleep(delay)
  }
})

/**
 * Runs the processes until it is interrupted, and drains them then. Logs once that all listen.
 *
 * The first process starts alone. If it fails, the others are not started, so its failure is printed once. Dies if a
 * process had to be killed, because it did not drain.
 */
export const supervise = (
  { drainTimeout = 10_000, listening, processes }: SupervisorOptions
): Effect.Effect<never, ProcessNotStarted> =>
  Effect.suspend(() => {
    // Node's default, except on Windows.
    cluster.schedulingPolicy = cluster.SCHED_RR
    const places = Array.from({ length: processes }, (_, at): Place => ({
      number: at + 1,
      patience: drainTimeout + drainMargin,
      started: Deferred.makeUnsafe()
    }))
    const hasStarted = ({ started }: Place) => Deferred.await(started)
    const running = places.map((place, at) =>
      at === 0 ? keepRunning(place) : Effect.andThen(hasStarted(places[0]!), keepRunning(place))
    )
    const announced = Effect.andThen(
      Effect.forEach(places, hasStarted, { discard: true }),
      Effect.annotateLogs(Effect.logInfo("Listening"), { ...listening, processes })
    )
    return Effect.andThen(Effect.all([announced, ...running], { concurrency: "unbounded" }), Effect.never)
  }).pipe(Effect.annotateLogs({ pid: process.pid }))
