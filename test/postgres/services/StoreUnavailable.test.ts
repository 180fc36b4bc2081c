/**
 * Every failure of the database, and no mistake of the gateway, becomes StoreUnavailable. The tests cut, block and stop
 * real connections, and map every SQLSTATE.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber } from "effect"
import { SqlError } from "effect/sql"
import * as net from "node:net"
import { Duplex } from "node:stream"
import { bearer } from "../../../src/domain/Credential.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { orUnavailable, storeFailure, StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { newRegistration, register, revocations } from "../../fixtures/ledger/ExternalGrants.ts"
import {
  accept,
  everything,
  issue,
  newClient,
  newKey,
  outcome,
  PostgresLedger,
  walk
} from "../../fixtures/ledger/Ledger.ts"
import { anotherProcess, terminate, untilWaiting, whileLocked } from "../../fixtures/postgres/Pools.ts"
import { serverAddress } from "../../fixtures/postgres/TestDatabase.ts"

/** Every call of the services, on one operation. */
const everyCall = Effect.fnUntraced(function*() {
  const { access_token, grant, identity } = yield* issue()
  const { operation } = yield* accept(identity)
  const registration = newRegistration()
  return Effect.gen(function*() {
    const grants = yield* Grants
    const ledger = yield* OperationLedger
    const store = yield* OperationStore
    const verifier = yield* GrantVerifier
    const calls: Readonly<Record<string, Effect.Effect<unknown, { readonly _tag: string }, Grants>>> = {
      find: store.find(identity, operation.id),
      list: store.list(identity, everything),
      verify: verifier.verify(bearer(access_token)),
      accept: ledger.accept(identity, { type: "payment", key: newKey(), payload: null }),
      transition: ledger.transition(operation.id, 1, outcome("submitting"), null),
      show: ledger.show(operation.id),
      history: ledger.history(operation.id),
      issue: grants.issue({ ...grant, client_id: newClient(), expires_in: Duration.hours(1) }),
      showGrant: grants.show(grant.grant_id),
      revoke: grants.revoke(grant.grant_id),
      registerGrant: register(registration),
      ...Object.fromEntries(
        Object.entries(revocations).map(([name, revoke]) => [`revoke by ${name}`, revoke(registration)])
      ),
      setClientActive: grants.setClientActive(grant.client_id, true),
      setProviderConnected: grants.setProviderConnected(grant.provider_connection_id, true)
    }
    return calls
  })
})

layer(PostgresLedger, { excludeTestServices: true })("StoreUnavailable", (it) => {
  it.effect("fails every call when no database listens", () =>
    Effect.gen(function*() {
      const calls = yield* everyCall()
      yield* Effect.gen(function*() {
        for (const [name, call] of Object.entries(yield* calls)) {
          assert.strictEqual((yield* Effect.flip(call))._tag, "StoreUnavailable", name)
        }
      }).pipe(Effect.provide(anotherProcess({ host: "/nowhere" })))
    }))

  it.effect("fails a call whose connection is terminated; the next call gets another connection", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        for (
          const read of [
            Effect.asVoid(store.find(identity, operation.id)),
            Effect.asVoid(store.list(identity, everything))
          ]
        ) {
          const reading = yield* whileLocked(
            "operations",
            Effect.gen(function*() {
              const fiber = yield* Effect.forkChild(Effect.flip(read))
              yield* untilWaiting(1)
              assert.isAtLeast(yield* terminate("victim"), 1)
              return fiber
            })
          )
          assert.strictEqual((yield* Fiber.join(reading))._tag, "StoreUnavailable")
          yield* read
        }
      }).pipe(Effect.provide(anotherProcess({ applicationName: "victim", maxConnections: 1 })))
    }))

  it.effect("fails a call when the network fails during it", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const sockets: Array<net.Socket> = []
      const stream = () => {
        const socket = net.connect(serverAddress())
        sockets.push(socket)
        return socket
      }
      yield* Effect.gen(function*() {
        const waiting = yield* whileLocked(
          "operations",
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(Effect.flip(accept(identity)))
            yield* untilWaiting(1)
            for (const socket of sockets) socket.destroy()
            return fiber
          })
        )
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "StoreUnavailable")
        yield* accept(identity)
      }).pipe(Effect.provide(anotherProcess({ stream, maxConnections: 1 })))
    }))

  it.effect("fails a call when the server listens and never answers", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const stream = () => new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() })
      const error = yield* Effect.flip(OperationStore.use((store) => store.list(identity, everything))).pipe(
        Effect.provide(anotherProcess({ stream, connectTimeout: "20 millis" }))
      )
      assert.strictEqual(error._tag, "StoreUnavailable")
    }))

  it.effect("fails no call after idle connections were terminated: the call opens a new connection", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        yield* Effect.all(Array.from({ length: 8 }, () => store.list(identity, everything)), { concurrency: 8 })
        yield* terminate("idle")
        yield* Effect.retry(store.list(identity, everything), { times: 1 })
        yield* store.list(identity, everything)
      }).pipe(Effect.provide(anotherProcess({ applicationName: "idle", maxConnections: 1 })))
    }))

  const tables = "grants, access_tokens, clients, provider_connections, operations, operation_history"
  for (const setting of ["statement_timeout", "lock_timeout"]) {
    it.effect(`fails every call that exceeds ${setting}`, () =>
      Effect.gen(function*() {
        const calls = yield* everyCall()
        yield* Effect.gen(function*() {
          const all = Object.entries(yield* calls)
          // At the same time, because the functions that revoke wait longer for a lock.
          const errors = yield* whileLocked(
            tables,
            Effect.forEach(all, ([name, call]) => Effect.map(Effect.flip(call), ({ _tag }) => [name, _tag] as const), {
              concurrency: "unbounded"
            })
          )
          for (const [name, error] of errors) assert.strictEqual(error, "StoreUnavailable", name)
        }).pipe(Effect.provide(
          anotherProcess({ multiplex: false, maxConnections: 32, startupParameters: { [setting]: "10ms" } })
        ))
      }))
  }

  it.effect("leaves open whether a request was recorded: a repetition with the same key records it once", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const key = newKey()
      yield* Effect.gen(function*() {
        const waiting = yield* whileLocked(
          "operations",
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(Effect.flip(accept(identity, { key })))
            yield* untilWaiting(1)
            yield* terminate("accepting")
            return fiber
          })
        )
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "StoreUnavailable")
        const { operation } = yield* accept(identity, { key })
        assert.deepStrictEqual(yield* accept(identity, { key }), { operation, created: false })
        assert.deepStrictEqual((yield* walk(identity, everything)).flat(), [operation])
      }).pipe(Effect.provide(anotherProcess({ applicationName: "accepting", maxConnections: 1 })))
    }))
})

describe("a failure of the database", () => {
  const unknown = (code: unknown) =>
    new SqlError.SqlError({
      reason: new SqlError.UnknownError({ cause: Object.assign(new Error("boom"), { code }), message: "boom" })
    })
  const exitOf = (error: SqlError.SqlError) => Effect.exit(orUnavailable(Effect.fail(error)))

  /** https://www.postgresql.org/docs/current/errcodes-appendix.html */
  const notNow = "08006 53000 53100 53200 53300 53400 25006 57000 57P01 57P02 57P03 57P05 58000 58030".split(" ")
  const mistakes = "23001 23502 23514 42P01 42703 22P02 25001 P0001 XX000 0A000 5 A57P01".split(" ")

  it.effect.each(notNow)("with SQLSTATE %s is StoreUnavailable", (code) =>
    Effect.gen(function*() {
      const exit = yield* exitOf(unknown(code))
      assert.isTrue(Exit.isFailure(exit) && !Cause.hasDies(exit.cause))
    }))

  it.effect("with another SQLSTATE, or without a readable cause, is a mistake of the gateway, and dies", () =>
    Effect.gen(function*() {
      const codes = [...mistakes, "", undefined, null, 57].map(unknown)
      const causes = [undefined, null, "57P01", {}, { code: 57 }].map((cause) =>
        new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, message: "boom" }) })
      )
      for (const error of [...codes, ...causes]) {
        const exit = yield* exitOf(error)
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), JSON.stringify(error))
      }
    }))

  it("is recognized by its root cause, and other failures are not", () => {
    const error = unknown("57P01")
    for (
      const failure of [
        error,
        new StoreUnavailable({ cause: error }),
        new StoreUnavailable({ cause: new Error("boom") })
      ]
    ) {
      assert.strictEqual(storeFailure(failure), "boom")
    }
    for (const other of [new Error("boom"), "boom", null, undefined, { _tag: "SqlError" }]) {
      assert.isNull(storeFailure(other))
    }
  })

  it.effect("becomes StoreUnavailable, and other errors stay unchanged", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(orUnavailable(Effect.fail("other" as const)))
      assert.strictEqual(error, "other")
      assert.strictEqual(yield* orUnavailable(Effect.succeed(1)), 1)
    }))
})
