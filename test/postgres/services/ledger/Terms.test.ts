/**
 * The terms of an operation (amount, currency, payee) are for operators: sealed, immutable, masked unless a recorded action shows them, and
 * in no public form. The tests of the acceptance run against PostgreSQL and the memory store.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { InvalidFinancialRequest } from "../../../../src/domain/Idempotency.ts"
import type { ActingOperator, OperatorPage, OperatorSummary } from "../../../../src/domain/operators/OperatorView.ts"
import { type Terms, termsIn } from "../../../../src/domain/Terms.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { makeListRecorded, OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { OperatorActions } from "../../../../src/services/operators/OperatorActions.ts"
import { layerAesGcm, type PayloadKey } from "../../../../src/services/PayloadCipher.ts"
import { having } from "../../../fixtures/ledger/Backstage.ts"
import { accept, conformance, drive, issue, newKey, pathTo, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider, readTerms } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

const terms: Terms = { amount: "750.00", currency: "EUR", payee: "DE89370400440532013000" }
const masked = { amount: "••••", currency: "EUR", payee: "••••3000" }

conformance("an acceptance with terms", (it) => {
  it.effect("takes an amount with the digits of its currency at most, and a payee", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const given: ReadonlyArray<readonly [Partial<Terms>, boolean]> = [
        [{}, true],
        [{ amount: "750" }, true],
        [{ amount: "0.5" }, true],
        [{ amount: "750.005" }, false],
        [{ amount: "750.005", currency: "KWD" }, true],
        [{ amount: "750.0", currency: "JPY" }, false],
        [{ amount: "750", currency: "JPY" }, true],
        [{ amount: "-750" }, false],
        [{ amount: "7,50" }, false],
        [{ amount: "1e3" }, false],
        [{ currency: "eur" }, false],
        [{ payee: "" }, false],
        [{ payee: "x".repeat(256) }, false]
      ]
      for (const [change, isValid] of given) {
        const result = yield* Effect.result(accept(identity, { terms: { ...terms, ...change } }))
        assert.strictEqual(Result.isSuccess(result), isValid, JSON.stringify(change))
        if (Result.isSuccess(result)) continue
        assert.instanceOf(result.failure, InvalidFinancialRequest)
        for (const value of Object.values(change)) {
          if (value !== "") assert.notInclude(result.failure.message, String(value))
        }
      }
    }))

  it.effect("is refused if the function of the terms fails, whose error may quote the payload", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const failing = termsIn(() => Number("750.00").toFixed(-1) as never, null)
      const refused = yield* Effect.flip(accept(identity, { terms: failing }))
      assert.instanceOf(refused, InvalidFinancialRequest)
    }))

  it.effect("is not part of the request binding: a repetition returns its operation, also after the terms became invalid", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const key = newKey()
      const { operation } = yield* accept(identity, { key, terms })
      for (const later of [{ ...terms, payee: "another" }, { ...terms, amount: "750.005" }]) {
        const again = yield* accept(identity, { key, terms: later })
        assert.deepStrictEqual([again.created, again.operation.id], [false, operation.id])
      }
      const payload = { amount: "10.00" }
      const batch = yield* ledger.acceptAll(identity, [
        { type: "payment", key, payload, terms: { ...terms, amount: "7,50" } },
        { type: "payment", key: newKey(), payload, terms: { ...terms, amount: "7,50" } },
        { type: "payment", key: newKey(), payload, terms },
        { type: "payment", key: newKey(), payload }
      ])
      assert.deepStrictEqual(batch.map(({ _tag }) => _tag), ["Success", "Failure", "Success", "Success"])
    }))
})

const operator: ActingOperator = { name: "ada", via: "console", reason: null }

const Operators = Layer.mergeAll(OperationSearch.layer, OperatorActions.layer).pipe(Layer.provideMerge(PostgresLedger))

const key = (id: string, text: string): PayloadKey => ({
  id,
  key: Redacted.make(new TextEncoder().encode(text.repeat(32)))
})
const keys = [key("first", "k")] as const

/** The reads and actions of an operator whose process has the keys. */
const withKeys = (keys: readonly [PayloadKey, ...ReadonlyArray<PayloadKey>]) =>
  Effect.provide(
    Layer.fresh(
      Layer.mergeAll(OperationSearch.layer, OperatorActions.layer).pipe(
        Layer.provide(Layer.orDie(layerAesGcm(keys))),
        Layer.provide(Layer.merge(NodeCrypto.layerAead, NodeCrypto.layerDigest))
      )
    )
  )

layer(Operators, { excludeTestServices: true })("stored terms", (it) => {
  it.effect("are masked in every read, and one record names all operations whose terms an operator saw", () =>
    Effect.gen(function*() {
      const actions = yield* OperatorActions
      const search = yield* OperationSearch
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const ids = yield* Effect.forEach(
        [terms, { ...terms, payee: "Landlord" }, undefined],
        (given) =>
          Effect.map(accept(identity, given === undefined ? {} : { terms: given }), ({ operation }) => operation.id)
      )
      const shown = yield* Effect.forEach(ids, search.detail)
      assert.deepStrictEqual(shown.map(({ terms }) => terms), [masked, { ...masked, payee: "••••" }, null])
      const listed = yield* search.list({ client_id: identity.client_id, order: "oldest", limit: 10 })
      const found = (yield* Effect.forEach(ids, search.find)).flat()
      assert.notInclude(JSON.stringify([shown, listed, found]), "750.00")
      const plain = yield* actions.showTerms(ids, operator)
      assert.deepStrictEqual([...plain], [[ids[0], terms], [ids[1], { ...terms, payee: "Landlord" }]])
      const records = yield* sql`SELECT operator, via, action, operation_ids, result FROM operator_actions`
      assert.deepStrictEqual(records, [
        { operator: "ada", via: "console", action: "show_terms", operation_ids: ids.slice(0, 2), result: "done" }
      ])
      const acted = yield* Effect.forEach(ids, (id) => Effect.map(search.detail(id), ({ actions }) => actions.length))
      assert.deepStrictEqual(acted, [1, 1, 0])
    }))

  it.effect("are encrypted with the keys of the payloads, and another process masks all of them", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      const { operation: { id } } = yield* having(keys, accept(identity, { terms, payload: { ...terms } }))
      const [row] = yield* sql<
        { readonly terms: Uint8Array; readonly terms_key_id: string; readonly payload: Uint8Array }
      >`
        SELECT o.terms, o.terms_key_id, y.payload FROM operations o JOIN operation_payloads y ON y.operation_id = o.id
        WHERE o.id = ${id}`
      assert.match(row!.terms_key_id, /^first~/)
      assert.notInclude(Buffer.from(row!.terms).toString("latin1"), "DE89")
      const read = Effect.gen(function*() {
        const detail = yield* OperationSearch.use((search) => search.detail(id))
        const plain = yield* OperatorActions.use((actions) => actions.showTerms([id], operator))
        return [detail.terms, plain.get(id)]
      })
      const unreadable = { amount: "••••", currency: "••••", payee: "••••" }
      assert.deepStrictEqual(yield* withKeys(keys)(read), [masked, terms])
      assert.deepStrictEqual(yield* withKeys([key("other", "o")])(read), [unreadable, unreadable])
      assert.deepStrictEqual(yield* read, [unreadable, unreadable])
      // A payload in the place of the terms is no terms: each ciphertext names its part.
      yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_terms`
      yield* sql`UPDATE operations SET terms = ${row!.payload} WHERE id = ${id}`
      yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_terms`
      assert.deepStrictEqual(yield* withKeys(keys)(read), [unreadable, unreadable])
    }))

  it.effect("never change, and end with the payload only if the type says so", () =>
    Effect.gen(function*() {
      const search = yield* OperationSearch
      const { identity } = yield* issue()
      const { operation: kept } = yield* accept(identity, { terms })
      const { operation: erased } = yield* accept(identity, { terms: { ...terms, kept: false } })
      for (
        const column of [
          "terms = NULL",
          "terms = '\\x00'",
          "terms_key_id = 'k'",
          "erases_terms = NOT erases_terms",
          "payee_index = NULL",
          "payee_index = sha256('')"
        ]
      ) {
        const refused = yield* attempt("origin", `UPDATE operations SET ${column} WHERE id = $1`, [kept.id])
        assert.strictEqual(refused, "23001", column)
      }
      assert.deepStrictEqual((yield* search.detail(erased.id)).terms, masked)
      yield* drive(kept, pathTo.succeeded)
      yield* drive(erased, pathTo.succeeded)
      assert.deepStrictEqual((yield* search.detail(kept.id)).terms, masked)
      assert.isNull((yield* search.detail(erased.id)).terms)
    }))

  it.effect("are found by the whole payee, with the key of their operation, and who finds them is recorded", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const payee = `Landlord ${newKey()}`
      const { identity } = yield* issue()
      const given = Effect.map(accept(identity, { terms: { ...terms, payee } }), ({ operation }) => operation.id)
      const [first, second] = [key("first", "k"), key("second", "s")]
      const plain = yield* given
      const early = yield* having([first], given)
      const late = yield* having([second, first], given)
      const { operation: erased } = yield* accept(identity, { terms: { ...terms, payee, kept: false } })
      yield* drive(erased, pathTo.succeeded)
      const find = (payee: string) =>
        Effect.gen(function*() {
          const list = yield* makeListRecorded
          const found: Array<OperatorSummary> = []
          for (let after: string | null | undefined; after !== null;) {
            const query = { payee, order: "oldest", limit: 1, ...after === undefined ? {} : { after } } as const
            const page: OperatorPage = yield* list(query, operator)
            found.push(...page.operations)
            after = page.next
          }
          return found.map(({ operation, terms }) => [operation.id, terms?.payee])
        })
      const rotated = withKeys([second, first])
      assert.deepStrictEqual(yield* rotated(find(payee)), [[plain, "••••"], [early, payee], [late, payee]])
      const respelled = `${payee.toUpperCase().replace(" ", "\u00a0 ")}\n`
      assert.deepStrictEqual(yield* withKeys([second])(find(respelled)), [[plain, "••••"], [late, payee]])
      assert.deepStrictEqual(yield* find(payee), [[plain, payee]])
      for (const part of [payee.slice(1), payee.slice(0, -1), `${payee}x`]) assert.isEmpty(yield* rotated(find(part)))
      const ids = [plain, early, late]
      const records = yield* sql<{ readonly ids: string; readonly operator: string }>`
        SELECT operation_ids[1] AS ids, operator FROM operator_actions
        WHERE operation_ids[1]::text = ANY (${ids}) ORDER BY at, id`
      const ada = (id: string) => ({ ids: id, operator: "ada" })
      assert.deepStrictEqual(records, [plain, early, late, plain, late, plain].map(ada))
    }))

  it.effect("are beside the answer of the last status read", () =>
    Effect.gen(function*() {
      const search = yield* OperationSearch
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { operation } = yield* accept(issued.identity)
      const { id, revision } = yield* drive(operation, pathTo.indeterminate)
      assert.isNull((yield* search.detail(id)).last_read)
      yield* queue.takeReads(issued.grant.provider, 1, readTerms)
      const next = { due_in: readTerms.lease, reference: null }
      yield* queue.postpone(id, revision, { ...next, answer: "not found" })
      const { last_read } = yield* search.detail(id)
      assert.deepInclude(last_read, { read: 1, answer: "not found", question: null })
      yield* queue.postpone(id, revision, next)
      assert.deepStrictEqual((yield* search.detail(id)).last_read, last_read)
      const question = "Which payment has the consent 7?"
      yield* queue.postpone(id, revision, { ...next, answer: "ordered: the consent is consumed", question })
      yield* queue.postpone(id, revision, { ...next, answer: "unreachable: reset" })
      const asked = yield* search.detail(id)
      assert.deepInclude(
        asked.last_read,
        { answer: "unreachable: reset", question },
        "a later answer keeps the question"
      )
      assert.include(asked.next, { by: "operator", action: `Ask the provider, and record its answer: ${question}` })
      yield* queue.postpone(id, revision, { ...next, answer: "submitted", question: null })
      assert.deepInclude((yield* search.detail(id)).last_read, { answer: "submitted", question: null })
    }))
})
