/**
 * Payloads, terms and payload keys appear in no log, span or error. The tests record everything that a process shows while
 * ledger and queue work on PostgreSQL.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Logger, Redacted, References, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { OperatorActions } from "../../../../src/services/operators/OperatorActions.ts"
import { layerAesGcm, PayloadCipher, type PayloadKey } from "../../../../src/services/PayloadCipher.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { accept, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimTerms, issueAtNewProvider } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const account = "DE00123456789"
const keyText = "0123456789abcdef0123456789ABCDEF"
const secretKey: PayloadKey = { id: "secret", key: Redacted.make(new TextEncoder().encode(keyText)) }

/** Everything that an observer of the process can see of an effect: its logs, its spans and its exit. */
const observe = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const seen: Array<unknown> = []
  const logger = Logger.make(({ cause, message }) => void seen.push(message, cause, Cause.pretty(cause)))
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      const end = span.end.bind(span)
      // Exporters show the failure of a span, and no value.
      span.end = (at, exit) => end(at, Exit.asVoid(exit))
      seen.push(span)
      return span
    }
  })
  const exit = yield* effect.pipe(
    Effect.tapCause((cause) => Effect.logError("failed", cause)),
    Effect.withSpan("test"),
    Effect.exit,
    Effect.provideService(References.MinimumLogLevel, "All"),
    Effect.provideService(References.TracerEnabled, true),
    Effect.provide(Logger.layer([logger])),
    Effect.withTracer(tracer)
  )
  if (Exit.isFailure(exit)) seen.push(exit.cause, Cause.pretty(exit.cause), JSON.stringify(exit.cause))
  return { exit, seen: inspect(seen, { depth: 12, maxStringLength: null }) }
})

/** The encodings to search for: text, hexadecimal, Base64 and numbers. */
const assertHides = (seen: string, secret: string) => {
  const bytes = Buffer.from(secret)
  const written = [
    secret,
    bytes.toString("hex"),
    bytes.toString("base64").slice(0, 12),
    [...bytes].slice(0, 8).join(", "),
    [...bytes].slice(0, 8).map((byte) => byte.toString(16)).join(" ")
  ]
  for (const text of written) assert.notInclude(seen, text)
}

const withKey = layerAesGcm([secretKey]).pipe(Layer.provide(Layer.merge(NodeCrypto.layerAead, Platform)))

/** What operators have, with the key. */
const operators = Layer.fresh(Layer.merge(OperationSearch.layer, OperatorActions.layer)).pipe(Layer.provide(withKey))

layer(PostgresLedger, { excludeTestServices: true })("payload and payload key", (it) => {
  /** Ledger and queue of a process that encrypts. */
  const encrypting = Effect.flatMap(Backstage, (backstage) => backstage.processWith([secretKey]))

  it.effect("are in no span and no log of ledger and queue, on success and on each failure", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const process = yield* encrypting
      const { grant, identity } = yield* issueAtNewProvider()
      const { exit, seen } = yield* observe(
        Effect.gen(function*() {
          const queue = yield* Queue
          const { operation } = yield* accept(identity, { payload: { account } })
          const [claim] = yield* queue.claim(grant.provider, 1, claimTerms)
          assert.deepStrictEqual(yield* claim!.payload, { account })
          // Another program swaps the ciphertexts of two operations.
          const other = yield* accept(identity, { payload: { account, n: 2 } })
          yield* sql`ALTER TABLE operation_payloads DISABLE TRIGGER USER`
          yield* sql`
            UPDATE operation_payloads y SET payload = o.payload FROM operation_payloads o
            WHERE y.operation_id = ${other.operation.id} AND o.operation_id = ${operation.id}`
          yield* sql`ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_permanent`
          yield* sql`ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_guard`
          const [exchanged] = yield* queue.claim(grant.provider, 1, claimTerms)
          return yield* exchanged!.payload
        }).pipe(Effect.provideContext(process))
      )
      assert.isTrue(Exit.isFailure(exit))
      for (const text of ["OperationLedger.accept", "Claims.claim", "PayloadUnreadable"]) {
        assert.include(seen, text, "the observer sees the public text")
      }
      assertHides(seen, account)
      assertHides(seen, keyText)
    }))

  it.effect("and the terms are in no span and no log either, when they are accepted, refused and shown to an operator", () =>
    Effect.gen(function*() {
      const process = yield* encrypting
      const { identity } = yield* issueAtNewProvider()
      const terms = { amount: "48151623.42", currency: "EUR", payee: account }
      const { exit, seen } = yield* observe(
        Effect.gen(function*() {
          const { operation: { id } } = yield* accept(identity, { terms })
          yield* Effect.exit(accept(identity, { terms: { ...terms, amount: `${terms.amount}5` } }))
          const operator = { name: "ada", via: "console", reason: null } as const
          const { detail } = yield* OperationSearch
          return [(yield* detail(id)).terms, yield* (yield* OperatorActions).showTerms([id], operator)] as const
        }).pipe(Effect.provideContext(process), Effect.provide(operators))
      )
      assert(Exit.isSuccess(exit))
      assert.deepStrictEqual([...exit.value[1].values()], [terms])
      for (const text of ["OperationLedger.accept", "OperatorActions.showTerms"]) assert.include(seen, text)
      for (const secret of [terms.amount, terms.payee, keyText]) assertHides(seen, secret)
    }))

  it.effect("are in no error of a statement that PostgreSQL refuses, although its detail shows the failing row", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const process = yield* encrypting
      const { identity } = yield* issueAtNewProvider()
      yield* sql`ALTER TABLE operation_payloads ADD CONSTRAINT refuse_all CHECK (false) NOT VALID`
      const { exit, seen } = yield* observe(
        Effect.provideContext(accept(identity, { payload: { account } }), process)
      )
      yield* sql`ALTER TABLE operation_payloads DROP CONSTRAINT refuse_all`
      assert.isTrue(Exit.isFailure(exit))
      assert.include(seen, "Failing row contains")
      assertHides(seen, account)
      assertHides(seen, keyText)
      assert.isTrue((yield* accept(identity)).created)
    }))

  it.effect("are in no text that the cipher prints of itself", () =>
    Effect.gen(function*() {
      const cipher = yield* Effect.provide(Effect.map(PayloadCipher, (cipher) => cipher), withKey)
      const shown = inspect([cipher, secretKey], { depth: 12, showHidden: true }) + JSON.stringify([cipher, secretKey])
      assert.include(shown, "secret")
      assertHides(shown, keyText)
    }))
})
