/**
 * The crash points, as decorators of the worker's services: the code under test has no hooks. The worker takes orders from the
 * parent, and strikes itself at the next pass of the named point.
 */
import { PgClient } from "@effect/sql-pg"
import { Cause, Context, Effect, Exit, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as net from "node:net"
import * as readline from "node:readline"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Queue, queueContext, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import { type CrashPoint, Message, Order } from "./Plan.ts"

const decodeOrder = Schema.decodeSync(Order)
const encodeMessage = Schema.encodeSync(Message)

/** Synchronous: the message is written before any later step. */
export const tell = (message: Message): void => {
  fs.writeSync(1, `${encodeMessage(message)}\n`)
}

export interface Striker {
  readonly isOrdered: (point: CrashPoint) => boolean
  /** Does not return if the order is to kill, and returns much later if it is to stop. */
  readonly pass: (point: CrashPoint) => void
}

/** Listens for orders on the standard input. The parent ends the process by closing it. */
export const makeStriker = (): Striker => {
  let order: Order | null = null
  readline.createInterface({ input: process.stdin })
    .on("line", (line) => {
      order = decodeOrder(line)
    })
    .on("close", () => process.exit(1))
  const isOrdered = (point: CrashPoint) => order?.point === point
  return {
    isOrdered,
    pass: (point) => {
      if (order?.point !== point) return
      const { blow } = order
      order = null
      tell({ _tag: "Struck", point, blow })
      process.kill(process.pid, blow === "kill" ? "SIGKILL" : "SIGSTOP")
      // Another thread may take the signal shortly after the call. No code may run until then.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50)
      tell({ _tag: "Resumed" })
    }
  }
}

/** The address of the database. */
export interface Connection {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly database: string
}

/** Whether a frame is a statement (Parse or Bind): neither a startup packet nor a request to cancel. */
const isStatement = (frame: unknown): boolean => frame instanceof Uint8Array && (frame[0] === 0x50 || frame[0] === 0x42)

/** A connection that calls `written` when a statement was sent. */
const watchedStream = ({ host, port }: Connection, written: () => void) => () => {
  const socket = net.connect({ host, port, noDelay: true })
  const write = socket.write.bind(socket) as (frame: unknown) => boolean
  socket.write = (frame: unknown) => {
    const hasRoom = write(frame)
    // The operating system has the bytes, because the socket was connected and empty.
    if (isStatement(frame)) written()
    return hasRoom
  }
  return socket
}

/** A second queue, whose only connection shows when a claim has been written to it. */
const makeWatchedQueue = Effect.fnUntraced(function*(striker: Striker, connection: Connection) {
  let isWatching = false
  const stream = watchedStream(connection, () => {
    if (!isWatching) return
    isWatching = false
    striker.pass("before_acknowledgement")
  })
  const context = yield* Layer.build(
    Layer.fresh(SubmissionQueue.layer).pipe(
      Layer.provideMerge(Layer.fresh(PgClient.layer({ ...connection, stream, maxConnections: 1 })))
    )
  )
  const [queue, sql] = [queueIn(context), Context.get(context, SqlClient.SqlClient)]
  const claim: Queue["claim"] = (...args) =>
    Effect.suspend(() => {
      isWatching = true
      return queue.claim(...args)
    })
  const hasWork = (provider: ProviderName) =>
    sql`SELECT 1 FROM operations WHERE state = 'accepted' AND provider = ${provider} AND due_at <= now() LIMIT 1`.pipe(
      Effect.timeout("500 millis"),
      Effect.map((rows) => rows.length > 0),
      Effect.orElseSucceed(() => false)
    )
  return { claim, hasWork }
})

/** The queue, with the points around the claim and after the record. */
export const layerCrashingQueue = (striker: Striker, connection: Connection) =>
  Layer.effectContext(
    Effect.gen(function*() {
      const queue = yield* Queue
      const watched = yield* makeWatchedQueue(striker, connection)
      return queueContext({
        ...queue,
        claim: Effect.fnUntraced(function*(provider, limit, terms) {
          striker.pass("before_claim")
          // A crash without a claimed operation would test nothing.
          const strikes = striker.isOrdered("before_acknowledgement") && (yield* watched.hasWork(provider))
          return yield* (strikes ? watched : queue).claim(provider, limit, terms)
        }),
        record: (id, revision, outcome, recording) =>
          Effect.tap(queue.record(id, revision, outcome, recording), () =>
            Effect.sync(() => {
              if (recording.evidence["by"] === "submission") striker.pass("after_record")
            }))
      })
    })
  )

/** The provider, with the points around the send. */
export const crashingProvider = (striker: Striker, provider: ProviderAdapter["Service"]): ProviderAdapter["Service"] =>
  ProviderAdapter.of({
    ...provider,
    submit: (operation, payload) =>
      Effect.suspend(() => {
        striker.pass("before_send")
        return provider.submit(operation, payload)
      }).pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            const wasSent = Exit.isSuccess(exit)
              || exit.cause.reasons.some((reason) => !Cause.isFailReason(reason) || reason.error._tag === "Uncertain")
            if (wasSent) striker.pass("before_record")
          })
        )
      )
  })
