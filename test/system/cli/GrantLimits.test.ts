/**
 * `grants issue --limits` gives a grant exactly the limits of the document, or issues none. The tests run the program against the real
 * PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import type { GrantId } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { accept, fieldsOf, identityOf, PostgresLedger, unique } from "../../fixtures/ledger/Ledger.ts"
import { result, run, urlOf } from "../../fixtures/processes/CommandLine.ts"

const limits: AuthorizationDetails = [{
  type: "financial_operations",
  operation_types: ["payment"],
  max_amount: [{ currency: "EUR", amount: "100.00" }],
  budgets: [{ currency: "EUR", amount: "150.00", per: "week", rolling: true }]
}]

interface Shown {
  readonly authorization_details: unknown
  readonly limits: ReadonlyArray<{ readonly limit: object; readonly remaining: string }>
}

const environment = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ readonly name: string }>`SELECT current_database() AS name`,
    ([database]) => ({ DATABASE_URL: urlOf(database!.name) })
  )
)

const issueFor = (client: string, document: string) => [
  ..."grants issue --owner owner --subject subject --client".split(" "),
  client,
  "--limits",
  document
]

/** The limit that refuses a payment of the grant, with what remains of it. Null: none does. */
const refusalOf = (grant_id: GrantId, amount: string) =>
  Effect.gen(function*() {
    const identity = identityOf(yield* Grants.use((grants) => grants.show(grant_id)))
    const exit = yield* Effect.exit(accept(identity, { terms: { amount, currency: "EUR", payee: "shop" } }))
    if (Exit.isSuccess(exit)) return null
    const error = exit.cause.reasons.find(Cause.isFailReason)?.error
    assert.strictEqual(error?._tag, "LimitExceeded", Cause.pretty(exit.cause))
    const { limit, remaining } = fieldsOf(error!) as { readonly limit: unknown; readonly remaining: string }
    return { limit, remaining }
  })

layer(PostgresLedger, { excludeTestServices: true })("grants issue --limits", (it) => {
  it.effect("limits the grant, from standard input and from an argument, and grants show tells what remains", () =>
    Effect.gen(function*() {
      const env = yield* environment
      const document = JSON.stringify(limits)
      const [{ budgets, max_amount }] = limits as readonly [(typeof limits)[number]]
      for (const [given, stdin] of [["-", `${document}\n`], [document, ""]] as const) {
        const { grant_id } = yield* result<{ readonly grant_id: GrantId }>(
          issueFor(unique("client"), given),
          env,
          stdin
        )
        const remaining = Effect.map(result<Shown>(["grants", "show", grant_id], env), (shown) => {
          assert.deepStrictEqual(shown.authorization_details, limits)
          return shown.limits.map(({ limit, remaining }) => ({ limit, remaining }))
        })
        const [budget, most] = [{ limit: budgets![0]! }, { limit: max_amount![0]!, remaining: "100.00" }]
        assert.sameDeepMembers(yield* remaining, [most, { ...budget, remaining: "150.00" }])
        assert.deepStrictEqual(yield* refusalOf(grant_id, "100.01"), most)
        assert.isNull(yield* refusalOf(grant_id, "100.00"))
        assert.deepStrictEqual(yield* refusalOf(grant_id, "50.01"), { ...budget, remaining: "50.00" })
        assert.sameDeepMembers(yield* remaining, [most, { ...budget, remaining: "50.00" }])
      }
    }))

  it.effect("issues no grant by limits that cannot be held, and says in one sentence which member is wrong", () =>
    Effect.gen(function*() {
      const env = yield* environment
      const client = unique("client")
      const [own] = limits
      const yen = { currency: "JPY", amount: "100.50", per: "day" }
      const atlantis = { ...yen, amount: "100", time_zone: "Europe/Atlantis" }
      const refused: ReadonlyArray<readonly [unknown, string]> = [
        [[{ ...own, max_amounts: own!.max_amount }], "authorization_details.0.max_amounts: "],
        [[{ ...own, budgets: [yen] }], "authorization_details.0.budgets.0.amount: "],
        [
          [{ ...own, budgets: [atlantis] }],
          "authorization_details.0.budgets.0.time_zone: Expected a time zone that exists"
        ],
        [[{ type: "account_information" }], "no object has the type financial_operations"],
        [[], "no object has the type financial_operations"],
        [own, "authorization_details: Expected objects that each have a type"],
        ["nonsense", "authorization_details: Expected objects that each have a type"]
      ]
      for (const [document, sentence] of refused) {
        const { code, stderr, stdout } = yield* run(issueFor(client, "-"), env, JSON.stringify(document))
        assert.deepStrictEqual([code, stdout], [1, ""])
        assert.match(stderr, /^error: --limits: [^\n;]+\n$/)
        assert.include(stderr, `error: --limits: ${sentence}`)
      }
      const broken = yield* run(issueFor(client, "-"), env, "[{")
      assert.match(broken.stderr, /^error: [^\n]*--limits[^\n]*one JSON document[^\n]*\n$/)
      const sql = yield* SqlClient.SqlClient
      assert.isEmpty(yield* sql`SELECT 1 FROM grants WHERE client_id = ${client}`)
    }))
})
