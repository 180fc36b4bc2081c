/**
 * `approvals` decides by the digest that `show` prints beside the terms, and `operations show` tells the decision. The tests run the program
 * against the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { having, type Keys } from "../../fixtures/ledger/Backstage.ts"
import { accept, newKey, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { result, run, urlOf } from "../../fixtures/processes/CommandLine.ts"

const keys: Keys = [{ id: "2026-01", key: Redacted.make(new Uint8Array(32).fill(7)) }]

layer(PostgresLedger, { excludeTestServices: true })("approvals", (it) => {
  it.effect("lists no digest, shows it beside readable terms alone, and tells who decided, and why", () =>
    Effect.gen(function*() {
      const [database] = yield* SqlClient.SqlClient.use((sql) =>
        sql<{ readonly name: string }>`SELECT current_database() AS name`
      )
      const env = { DATABASE_URL: urlOf(database!.name) }
      const { grant, identity } = yield* issueAtNewProvider({
        authorization_details: [{ type: "financial_operations", approval: { new_payees: true } }]
      })
      const terms = { amount: "12.00", currency: "EUR", payee: "DE89370400440532013000" }
      const { operation: { id } } = yield* accept(identity, { terms })
      const { operation: { id: sealed } } = yield* having(keys, accept(identity, { terms }))

      type Listed = { readonly approvals: ReadonlyArray<{ readonly operation_id: string }> }
      const { approvals } = yield* result<Listed>(["approvals", "list", "--owner", grant.resource_owner], env)
      assert.sameMembers(approvals.map((listed) => listed.operation_id), [id, sealed])
      assert.notInclude(JSON.stringify(approvals), "request_digest")
      const { identity: busy } = yield* issueAtNewProvider({
        authorization_details: [{ type: "financial_operations", approval: { new_payees: true } }]
      })
      const many = Array.from({ length: 1001 }, () => ({ type: "payment", key: newKey(), payload: null, terms }))
      yield* OperationLedger.use((ledger) => ledger.acceptAll(busy, many))
      const all = yield* result<Listed>(["approvals", "list"], env)
      assert.lengthOf(all.approvals, 1003)
      const acting = ["--operator", "anna", "--reason", "known shop"]
      const refused = yield* run(["approvals", "show", sealed, ...acting], env)
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "do not open the terms")
      assert.strictEqual(refused.stdout, "")

      const shown = yield* result<Record<"next" | "request_digest" | "state", string> & { readonly terms: object }>([
        "approvals",
        "show",
        id,
        ...acting
      ], env)
      assert.deepInclude(shown, { terms, state: "pending" })
      const { next, request_digest } = shown
      assert.include(next, ` approvals approve ${id} --digest ${request_digest}, or approvals deny`)
      const blind = yield* run(["approvals", "approve", id, "--digest", "0".repeat(64), ...acting], env)
      assert.strictEqual(blind.code, 1)
      yield* result(["approvals", "deny", id, "--digest", request_digest, ...acting], env)
      const { stdout } = yield* run(["operations", "show", id], env)
      assert.match(
        stdout,
        /\nApproval\n +state +denied\n +by +anna \(operator\)\n +decided +\S+ .*\n +reason +known shop\n/
      )
    }))
})
