/**
 * The causes that `bench/garbage.ts` measures. Each makes operations with a body of 2 KB, as a request that ends makes.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgPool from "@effect/sql-pg/PgPool"
import { Cache, Context, Deferred, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { allocateYoung } from "../../src/node/allocateYoung.ts"
import { forgetAnswered } from "../../src/node/forgetAnswered.ts"
import * as ReaderClient from "../../src/node/ReaderClient.ts"
import { rememberPrepared } from "../../src/node/rememberPrepared.ts"
import { Generations } from "../../src/server/RateLimitStore.ts"
import { RunningRequest, RunningRequests } from "../../src/server/RunningRequests.ts"
import type { DatabaseAddress } from "../shared/processes.ts"

/** Configuration of a case, passed as JSON in the first argument. */
export interface CaseConfig extends DatabaseAddress {
  readonly cause: string
  readonly workaround: boolean
}

export interface CaseResult {
  /** By which the old generation grew per operation. */
  readonly bytes: number
  /** Minor collections. */
  readonly collections: number
  /** Major collections. They free part of the growth, so there should be none. */
  readonly major: number
  /** In minor collections per operation. */
  readonly microseconds: number
}

/** Runs a number of operations. */
type Run = (count: number) => Effect.Effect<void>

interface Cause {
  /** Words for the table. */
  readonly workaround: string
  /** Operations of a measurement. */
  readonly count: number
  readonly make: (config: CaseConfig) => Effect.Effect<Run, unknown, Scope.Scope>
}

/** Operations that run at any time. */
const width = 64

/** The body of a response, 2 KB. */
const makeBody = (n: number) => Array.from({ length: 256 }, (_, at) => n + at)

/** Starts operation after operation. Each ends when `width` younger ones have started. */
const overlapping = (start: (n: number) => () => void): Run => {
  const ends: Array<(() => void) | undefined> = Array.from({ length: width })
  return (count) =>
    Effect.sync(() => {
      for (let n = 0; n < count; n++) {
        ends[n % width]?.()
        ends[n % width] = start(n)
      }
    })
}

/** Runs `width` operations at a time, each in a turn of the event loop of its own. */
const concurrent = (operation: (n: number) => Effect.Effect<unknown, unknown>): Run => (count) => {
  let left = count
  const nextTurns = Effect.callback<void>((resume) => {
    let turns = 1 + left % 4
    const turn = () => {
      if (turns-- > 0) setImmediate(turn)
      else resume(Effect.void)
    }
    turn()
  })
  const one = Effect.whileLoop({
    while: () => left-- > 0,
    body: () => Effect.andThen(nextTurns, Effect.suspend(() => Effect.orDie(operation(left)))),
    step: () => {}
  })
  return Effect.all(Array.from({ length: width }, () => one), { concurrency: "unbounded", discard: true })
}

const clientConfig = ({ database, port, socketDirectory, username }: CaseConfig) => ({
  host: socketDirectory,
  port,
  username,
  database,
  maxConnections: 1
})

const text = "SELECT $1::text AS id, repeat('x', 2000) AS body"

/** Statements on one shared connection, which is prepared first and before each statement. */
const statements = (config: CaseConfig, prepare: {
  readonly session?: typeof rememberPrepared
  readonly statement?: typeof forgetAnswered
}) =>
  Effect.map(PgPool.make({ ...clientConfig(config), multiplex: true }), (pool): Run => {
    const known = new WeakSet<object>()
    return concurrent((n) =>
      pool.use((session) => {
        if (!known.has(session)) prepare.session?.(session)
        known.add(session)
        prepare.statement?.(session)
        return session.query(text, [String(n)])
      })
    )
  })

/** Compiles statements that never run. */
const compiling = (layer: Layer.Layer<SqlClient.SqlClient, unknown>) =>
  Effect.map(Layer.build(layer), (context): Run => {
    const sql = Context.get(context, SqlClient.SqlClient)
    return overlapping((n) => {
      const statement = sql.unsafe(text, [makeBody(n)])
      statement.compile()
      return () => void statement
    })
  })

/** A closed scope with the exit of its request, as Effect's HTTP server leaves it. */
const close = (exit: unknown) => ({ _tag: "Closed", exit })

/** By the name in the table. */
export const causes: Readonly<Record<string, Cause>> = {
  "allocation site": {
    workaround: "allocateYoung",
    // V8 takes pretenuring back if a major collection finds hardly anything alive: not too much garbage in the warm-up.
    count: 40_000,
    make: ({ workaround }) =>
      Effect.sync(() => {
        if (workaround) allocateYoung()
        // A burst of requests that wait, in code that is not optimized yet: V8 counts only there.
        for (let burst = 0; burst < 4; burst++) {
          const waiting = Array.from({ length: 200 }, () => close(null))
          void globalThis.gc!({ type: "minor" })
          waiting.length = 0
        }
        return overlapping((n) => {
          const scope = { state: close(makeBody(n)) }
          return () => void scope
        })
      })
  },
  "queue of statements": {
    workaround: "forgetAnswered",
    count: 20_000,
    make: (config) => statements(config, config.workaround ? { statement: forgetAnswered } : {})
  },
  "prepared statements": {
    workaround: "rememberPrepared",
    count: 20_000,
    make: (config) =>
      statements(config, { statement: forgetAnswered, ...config.workaround ? { session: rememberPrepared } : {} })
  },
  "WeakMap of the compiler": {
    workaround: "ReaderClient",
    count: 100_000,
    make: (config) => compiling((config.workaround ? ReaderClient.layer : PgClient.layer)(clientConfig(config)))
  },
  "Cache.get": {
    workaround: "Generations",
    count: 400_000,
    make: ({ workaround }) =>
      Effect.map(
        Cache.make<string, Array<number>>({
          lookup: (key) => Effect.sync(() => makeBody(key.length)),
          capacity: 10_000
        }),
        (cache) => {
          const generations = new Generations<Array<number>>(10_000)
          return overlapping((n) => {
            const key = `token ${n % width}`
            if (workaround) generations.get(key, () => makeBody(key.length))
            else Effect.runSync(Cache.get(cache, key))
            return () => {}
          })
        }
      )
  },
  "Fiber.runIn": {
    workaround: "no scope",
    count: 100_000,
    make: ({ workaround }) =>
      Effect.map(Scope.make("parallel"), (scope) =>
        overlapping((n) => {
          const ended = Deferred.makeUnsafe<Array<number>>()
          const fiber = Effect.runFork(Deferred.await(ended))
          if (!workaround) Fiber.runIn(fiber, scope)
          return () => Deferred.doneUnsafe(ended, Exit.succeed(makeBody(n)))
        }))
  },
  "Set of requests": {
    workaround: "RunningRequests",
    count: 200_000,
    make: ({ workaround }) =>
      Effect.sync(() => {
        const running = workaround ? new RunningRequests() : new Set<RunningRequest>()
        return overlapping((n) => {
          const request = Object.assign(new RunningRequest(null, n), { body: makeBody(n) })
          running.add(request)
          return () => {
            if (running instanceof Set) running.delete(request)
            else running.remove(request)
          }
        })
      })
  }
}
