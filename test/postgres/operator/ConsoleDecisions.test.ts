/**
 * A decision at the console counts only by the session of an operator, on its page, about the request whose terms it showed, once and in
 * time. Every forged one is refused with a problem, and changes nothing.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { ProblemDetails } from "../../../src/api/Problems.ts"
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { LedgerFigures } from "../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../src/services/operators/OperationSearch.ts"
import { OperatorActions } from "../../../src/services/operators/OperatorActions.ts"
import { ConsoleServer, consoleServer } from "../../fixtures/console/ConsoleServer.ts"
import { signInAtIssuer } from "../../fixtures/console/IssuerSignIn.ts"
import { makeOperatorIssuer } from "../../fixtures/console/OperatorIssuer.ts"
import { type Visit, Visitor } from "../../fixtures/console/Visitor.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { Backstage } from "../../fixtures/ledger/Backstage.ts"
import { accept, PostgresLedger, unknownId } from "../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"

const host = "console.example"

const details: AuthorizationDetails = [
  { type: "financial_operations", operation_types: ["transfer"], approval: { new_payees: true } },
  { type: "financial_operations", operation_types: ["fee"] }
]

const decodeProblem = Schema.decodeUnknownSync(ProblemDetails)

const seventy = { amount: "70.00", currency: "EUR", payee: "DE89370400440532013000" }

const ask = (grant: GrantIdentity, terms = seventy, type = "transfer") =>
  Effect.map(accept(grant, { type, payload: "the same for all", terms }), ({ operation }) => operation.id)

/** A console of the ledger, where operators sign in at their issuer. */
const openConsole = Effect.gen(function*() {
  const ledger = Layer.succeedContext(yield* Effect.context<Layer.Success<typeof PostgresLedger>>())
  const issuer = yield* makeOperatorIssuer(`https://${host}`)
  const services = Layer.mergeAll(LedgerFigures.layer, OperationSearch.layer, OperatorActions.layer)
  const settings = { url: `https://${host}`, oidc: issuer.settings, operator: "unused", version: "0.0.0-test" }
  const { port } = Context.get(
    yield* Layer.build(consoleServer(Layer.provideMerge(services, ledger), { settings })),
    ConsoleServer
  )
  return {
    signIn: Effect.fnUntraced(function*(operator: string) {
      issuer.account.claims = { preferred_username: operator, roles: ["payments-operator"] }
      const visitor = new Visitor(port, host, "https")
      yield* signInAtIssuer(visitor)
      yield* visitor.readToken
      return visitor
    })
  }
})

/** All that a decision changes. */
const standing = SqlClient.SqlClient.use((sql) =>
  sql`SELECT o.id, o.state, o.revision, o.under_review, o.hold_placed, a.state AS approval, a.decider, a.reason
    FROM operations o LEFT JOIN approvals a ON a.operation_id = o.id ORDER BY o.id`
)

interface Forged {
  readonly id: OperationId
  readonly body: unknown
  readonly visitor: Visitor
  readonly headers?: Visit["headers"]
  readonly answer: readonly [status: number, code: string]
}

layer(PostgresLedger, { excludeTestServices: true })("A forged decision at the console", (it) => {
  it.effect("changes nothing, and is answered with a problem", () =>
    Effect.scoped(Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { identity: stranger } = yield* issueAtNewProvider({ authorization_details: details })
      const late = yield* ask(identity)
      yield* Backstage.use(({ pass }) => pass(Duration.hours(24)))
      const [target, decided, free] = [
        yield* ask(identity),
        yield* ask(identity),
        yield* ask(identity, seventy, "fee")
      ]
      const others = yield* Effect.all([
        ask(identity),
        ask(identity, { ...seventy, amount: "7.00" }),
        ask(identity, { ...seventy, payee: "DE02120300000000202051" }),
        ask(stranger)
      ])

      const { signIn } = yield* openConsole
      const olivia = yield* signIn("olivia")
      const oscar = yield* signIn("oscar")
      const client = yield* signIn(grant.client_id)
      const left = yield* signIn("olivia")
      const [[cookie, ended] = ["", ""]] = [...left.cookies]
      yield* left.send("/console/api/session", { method: "DELETE" })
      left.cookies.set(cookie, ended)

      const shown = yield* olivia.post("/console/api/terms", { operations: [late, target, decided, ...others] })
      const { digests } = JSON.parse(shown.text) as { readonly digests: Readonly<Record<string, string>> }
      const pathOf = (id: OperationId) => `/console/api/operations/${id}/decision`
      const approving = (id: OperationId) => ({ decision: "approved", request_digest: digests[id]!, reason: "known" })
      const denying = { decision: "denied", reason: "unknown" }
      const replayed = yield* olivia.post(pathOf(decided), approving(decided))
      assert.strictEqual(replayed.status, 200, replayed.text)

      const right = approving(target)
      const digest = right.request_digest
      const refused: Forged["answer"] = [409, "illegal_transition"]
      const malformed: Forged["answer"] = [422, "invalid_request"]
      const foreign: Forged["answer"] = [403, "foreign_origin"]
      const untrue: Forged["answer"] = [403, "wrong_csrf_token"]
      const unknown: Forged["answer"] = [401, "no_session"]
      const none = "A".repeat(olivia.csrfToken.length)
      const byOlivia = { id: target, visitor: olivia }
      /** Otherwise right, so that the guard alone refuses it. */
      const guarded = (forged: fc.Arbitrary<Pick<Forged, "answer"> & Partial<Forged>>) =>
        fc.tuple(forged, fc.constantFrom<unknown>(right, denying)).map(([rest, body]): Forged => ({
          ...byOlivia,
          body,
          ...rest
        }))
      const cookieOf = (value: string) => ({ cookie: `${cookie}=${value}` })
      const own = olivia.cookies.get(cookie)!
      const forged: fc.Arbitrary<Forged> = fc.oneof(
        // A digest that differs in one digit, or of another operation: other amount, other payee, other grant.
        fc.oneof(
          fc.tuple(fc.nat(63), fc.constantFrom(..."0123456789abcdef")).map(([at, to]) =>
            `${digest.slice(0, at)}${to}${digest.slice(at + 1)}`
          ),
          fc.constantFrom(...[decided, late, ...others].map((id) => digests[id]!))
        ).filter((request_digest) => request_digest !== digest).map((request_digest) => ({
          ...byOlivia,
          body: { ...right, request_digest },
          answer: refused
        })),
        fc.constantFrom(...others, free, unknownId).map((id) => ({ ...byOlivia, id, body: right, answer: refused })),
        fc.constantFrom<Forged>(
          ...[late, decided].flatMap((id) =>
            [approving(id), denying].flatMap((body) =>
              [olivia, oscar].map((visitor) => ({ id, visitor, body, answer: refused }))
            )
          ),
          ...[right, denying].map((body) => ({ id: target, visitor: client, body, answer: refused }))
        ),
        fc.oneof(
          fc.constantFrom<unknown>(digest.toUpperCase(), digest.slice(1), `${digest}0`, [digest], null, undefined)
            .map((request_digest) => ({ ...right, request_digest })),
          fc.constantFrom<unknown>({ ...right, reason: " " }, { ...denying, reason: null }, [right], null, "approved")
        ).map((body) => ({ ...byOlivia, body, answer: malformed })),
        guarded(
          fc.constantFrom("null", "https://evil.example", `http://${host}`, `https://${host}:443`, undefined)
            .map((origin) => ({ headers: { origin }, answer: foreign }))
        ),
        guarded(
          fc.constantFrom("cross-site", "same-site", "none")
            .map((site) => ({ headers: { "sec-fetch-site": site }, answer: foreign }))
        ),
        guarded(
          fc.constantFrom(undefined, "", none, olivia.csrfToken.slice(1), oscar.csrfToken, left.csrfToken)
            .map((token) => ({ headers: { "x-csrf-token": token }, answer: untrue }))
        ),
        // The session of another operator, whose token the page does not have.
        guarded(fc.constant({ headers: cookieOf(oscar.cookies.get(cookie)!), answer: untrue })),
        guarded(
          fc.constantFrom({ cookie: undefined }, ...[none, own.slice(1), `${own}A`, ended].map(cookieOf))
            .map((headers) => ({ headers, answer: unknown }))
        ),
        guarded(fc.constant({ visitor: left, answer: unknown })),
        // A form of another page can send it.
        guarded(fc.constant({ headers: { "content-type": "text/plain" }, answer: [415, "unsupported_media_type"] }))
      )

      const before = yield* standing
      let conflicts = 0
      const run = Effect.runPromiseWith(yield* Effect.context<SqlClient.SqlClient>())
      const property = fc.asyncProperty(forged, ({ answer, body, headers, id, visitor }) =>
        run(Effect.gen(function*() {
          const { status, text } = yield* visitor.post(pathOf(id), body, headers)
          const { code, detail } = decodeProblem(JSON.parse(text))
          assert.deepStrictEqual([status, code], answer, text)
          assert.match(detail, /^[^\n]+$/)
          assert.deepStrictEqual(yield* standing, before)
          if (status === 409) conflicts++
        })))
      yield* Effect.promise(() => fc.assert(property, { numRuns: rounds(300, 10_000), endOnFailure: true }))

      // What the ledger refused is recorded, and the right decision still counts.
      const sql = yield* SqlClient.SqlClient
      const recorded = yield* sql`
        SELECT 1 FROM operator_actions WHERE action IN ('approve', 'deny') AND via = 'console' AND result <> 'done'`
      assert.lengthOf(recorded, conflicts)
      const done = yield* oscar.post(pathOf(target), right)
      assert.deepInclude((JSON.parse(done.text) as { readonly approval: object }).approval, {
        state: "approved",
        decided_as: "operator",
        decider: "oscar"
      })
    })))
})
