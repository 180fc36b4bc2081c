/**
 * The ledger accepts no payload that the provider of the grant cannot carry out, and still returns what it accepted before.
 * The tests run against PostgreSQL and the memory store, and compare both with random requests.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Logger, Schema, SchemaGetter } from "effect"
import * as fc from "fast-check"
import { type GrantIdentity, ProviderName } from "../../../../src/domain/Grant.ts"
import { IdempotencyKey, InvalidFinancialRequest } from "../../../../src/domain/Idempotency.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import {
  accept,
  type Declared,
  declaring,
  expiredIn,
  InMemoryLedger,
  issue,
  newKey,
  owned,
  PostgresLedger,
  stores
} from "../../../fixtures/ledger/Ledger.ts"

const Payment = Schema.Struct({
  amount: Schema.String.check(Schema.isPattern(/^[0-9]+\.[0-9]{2}$/u, { expected: "an amount, such as 12.50" })),
  creditor: Schema.Struct({ iban: Schema.String, name: Schema.optionalKey(Schema.String) })
})
const payment = { amount: "12.50", creditor: { iban: "DE89" } }

const careful = ProviderName.make("careful")
const broken = ProviderName.make("broken")
const slow = ProviderName.make("slow")

const dying = Schema.String.check(Schema.makeFilter(() => {
  throw new Error("a defect of a schema")
}))

const waiting = Schema.String.pipe(
  Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transformEffect(() => Effect.never),
    encode: SchemaGetter.passthrough()
  })
)

const declared: Declared = { careful: { payment: Payment }, broken: { payment: dying }, slow: { payment: waiting } }

for (const [name, store, ledger] of stores) {
  layer(store, { excludeTestServices: true })(`a provider that declares payloads (${name})`, (it) => {
    const declares = declaring(ledger, declared)
    const invalid = (grant: GrantIdentity, request: Parameters<typeof accept>[1]) =>
      Effect.map(Effect.flip(accept(grant, request)), (error) => {
        assert.instanceOf(error, InvalidFinancialRequest)
        return error
      })

    it.effect("takes no other payload: the error names each member that does not fit, and no value", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: careful })
        const payload = { amount: "secret", creditor: { name: 7 }, memo: "secret" }
        const error = yield* invalid(identity, { payload })
        assert.sameDeepMembers([...error.fields!], [
          { path: ["amount"], message: "Expected an amount, such as 12.50" },
          { path: ["creditor", "iban"], message: "Missing key" },
          { path: ["creditor", "name"], message: "Expected string" },
          { path: ["memo"], message: "Expected only members that the provider takes" }
        ])
        assert.notInclude(JSON.stringify(error) + error.message, "secret")
        assert.deepStrictEqual(yield* owned(identity), [])
      }).pipe(declares))

    it.effect("takes no other type", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: careful })
        const error = yield* invalid(identity, { type: "refund", payload: payment })
        assert.strictEqual(error.message, "the provider of the grant carries out no operation of the type refund")
        assert.deepStrictEqual(error.fields?.map(({ path }) => path), [[]])
        assert.deepStrictEqual(yield* owned(identity), [])
      }).pipe(declares))

    it.effect("warns once of a type that it does not declare, because the handler chose it, and not of a payload", () =>
      Effect.gen(function*() {
        const lines: Array<string> = []
        const Lines = Logger.layer([
          Logger.make((options) => void lines.push(JSON.stringify(Logger.formatStructured.log(options))))
        ])
        const { identity } = yield* issue({ provider: careful })
        yield* Effect.provide(invalid(identity, { payload: {} }), Lines)
        assert.isEmpty(lines)
        yield* Effect.provide(invalid(identity, { type: "refund", payload: payment }), Lines)
        assert.lengthOf(lines, 1)
        const { annotations, level } = JSON.parse(lines[0]!) as Readonly<Record<string, unknown>>
        assert.match(String(level), /^warn/i)
        assert.deepInclude(annotations, { provider: "careful", type: "refund", declared_types: ["payment"] })
      }).pipe(declares))

    it.effect("binds no key to a refused payload", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: careful })
        const key = newKey()
        yield* invalid(identity, { key, payload: {} })
        assert.isTrue((yield* accept(identity, { key, payload: payment })).created)
      }).pipe(declares))

    it.effect("whose schema dies refuses everything with that defect, and affects no other provider", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: broken })
        const exit = yield* Effect.exit(accept(identity, { payload: "text" }))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* owned(identity), [])
        const { identity: other } = yield* issue()
        assert.isTrue((yield* accept(other, { payload: "text" })).created)
      }).pipe(declares))

    it.effect("whose schema waits refuses everything, and delays no other provider", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: slow })
        const exit = yield* Effect.exit(accept(identity, { payload: "text" }))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        const { identity: other } = yield* issue()
        assert.isTrue((yield* accept(other, { payload: "text" })).created)
      }).pipe(declares))

    it.effect("returns an operation from before to its repetition, and a conflict to another request of its key", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: careful })
        const key = newKey()
        const { operation } = yield* accept(identity, { key, payload: { old: true } })
        const again = yield* accept(identity, { key, payload: { old: true } }).pipe(declares)
        assert.deepStrictEqual(again, { operation, created: false })
        const others = [{ payload: { old: false } }, { payload: payment }, { type: "refund", payload: { old: true } }]
        for (const other of others) {
          const error = yield* Effect.flip(accept(identity, { key, ...other }).pipe(declares))
          assert.strictEqual(error._tag, "BindingConflict")
        }
      }))
  })
}

/** One request of a random run. `isExpired` is about the grant, `process` about the process that accepts. */
const request = fc.record({
  process: fc.constantFrom("declares", "declares nothing", "declares otherwise"),
  provider: fc.constantFrom("careful", "other"),
  isExpired: fc.boolean(),
  type: fc.constantFrom("payment", "refund"),
  key: fc.constantFrom("a", "b", "c"),
  payload: fc.constantFrom<Schema.Json>(payment, { amount: "1" }, { refund: 1 }, null, { ...payment, memo: 1 })
})
type Request = typeof request extends fc.Arbitrary<infer R> ? R : never

const processes: Readonly<Record<Request["process"], Declared>> = {
  declares: { careful: { payment: Payment } },
  "declares nothing": {},
  "declares otherwise": { careful: { refund: Schema.Struct({ refund: Schema.Number }) }, other: { payment: Payment } }
}

/** The answers to a run of requests. Operations are numbered, because their ids differ. */
const answersTo = Effect.fnUntraced(function*<R>(
  run: ReadonlyArray<Request>,
  ledger: Layer.Layer<OperationLedger, never, R>
) {
  const grants = new Map<string, GrantIdentity>()
  const ids: Array<string> = []
  const answers: Array<unknown> = []
  for (const { isExpired, key, payload, process, provider, type } of run) {
    const name = `${provider} ${isExpired}`
    const known = grants.get(name)
    const terms = { provider: ProviderName.make(provider), ...isExpired ? { expires_in: expiredIn } : {} }
    const grant = known ?? (yield* issue(terms)).identity
    grants.set(name, grant)
    const result = yield* Effect.result(
      accept(grant, { type, key: IdempotencyKey.make(key), payload }).pipe(declaring(ledger, processes[process]))
    )
    if (result._tag === "Failure") answers.push({ ...result.failure, message: result.failure.message })
    else {
      const { created, operation } = result.success
      if (created) ids.push(operation.id)
      answers.push([created, ids.indexOf(operation.id)])
    }
  }
  return answers
})

layer(PostgresLedger, { excludeTestServices: true })("both ledgers", (it) => {
  it.effect("give the same answers to the same requests, by any processes and in any order", () =>
    Effect.gen(function*() {
      const memory = yield* Layer.build(InMemoryLedger)
      yield* forAll(
        fc.array(request, { minLength: 1, maxLength: 12 }),
        rounds(20, 60),
        (run) =>
          Effect.gen(function*() {
            const expected = yield* Effect.provideContext(answersTo(run, OperationLedger.layerMemory), memory)
            assert.deepStrictEqual(yield* answersTo(run, OperationLedger.layer), expected)
          })
      )
    }))
})
