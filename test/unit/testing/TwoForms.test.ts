/**
 * A bank that answers a read by its reference with one transfer, and a read by the operation's id with a list. The kit tests the adapter
 * on both answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import * as HttpProvider from "../../../src/submission/http/HttpProvider.ts"
import { namesNothing, ProviderReference, StatusAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"

const Payment = Schema.Struct({ amount: Schema.String })
const Transfer = Schema.Struct({ id: ProviderReference, key: Schema.String })
const Page = Schema.Struct({ transfers: Schema.Array(Transfer), next: Schema.NullOr(Schema.String) })
type Transfers = typeof Page.Type["transfers"]

const order = HttpProvider.declareOrder({
  schema: Transfer,
  names: ({ id, key }) => ({ reference: id, operation_id: key }),
  result: () => ({ state: "succeeded" })
})

/** How an adapter searches the list. */
interface Search {
  readonly find?: (transfers: Transfers, id: string) => Transfers[number] | undefined
  /** The path of the page after this one, or null for no further page. */
  readonly after?: (next: string | null) => string | null
}

const pathAfter = (next: string | null) => next === null ? null : `/transfers?after=${next}`

const adapter = (
  { find = (transfers, id) => transfers.find(({ key }) => key === id), after = pathAfter }: Search
) =>
(baseUrl: string) =>
  HttpProvider.layer({
    baseUrl,
    payloads: { payment: Payment },
    credentials: () => Effect.succeed(HttpProvider.bearer(Redacted.make("a-token-for-tests"))),
    promises: { keys: "for_ever", readByOperationId: "yes" },
    submit: {
      request: (_operation, payment) => ({ path: "/transfers", body: payment }),
      decode: HttpProvider.byStatus({ 201: order.submitted })
    },
    status: {
      isUnfiltered: true,
      request: (_operation, reference) => ({ path: reference === null ? "/transfers" : `/transfers/${reference}` }),
      decode: (answer, { operation, reference }) =>
        HttpProvider.byStatus({
          200: reference !== null ? order.read : HttpProvider.onBody(Page, ({ next, transfers }) => {
            const own = find(transfers, operation.id)
            if (own !== undefined) {
              const path = `/transfers/${encodeURIComponent(own.id)}`
              return new HttpProvider.ReadOn({ path, decode: HttpProvider.byStatus({ 200: order.read }) })
            }
            const page = after(next)
            return page === null
              ? StatusAnswer.NotFound({ names: namesNothing, evidence: { found: 0 } })
              : new HttpProvider.ReadOn({ path: page })
          }),
          401: HttpProvider.wrongCredentials
        })(answer)
    }
  })

const transfer = ({ id, reference }: ProviderContract.AnswerSubject) => ({ id: reference, key: id })
const one = (about: ProviderContract.AnswerSubject) => ({ status: 200, body: transfer(about) })
const page = (next: string | null, ...transfers: ReadonlyArray<ReturnType<typeof transfer>>) => ({
  status: 200,
  body: { transfers, next }
})

type ByOperationId = Pick<ProviderContract.ProviderContractOptions["answers"], "statusByOperationId">

const contract = (search: Search, byOperationId: ByOperationId) =>
  ProviderContract.cases({
    adapter: adapter(search),
    operation: { type: "payment" },
    terms: null,
    expects: [{ payload: { amount: "1.15" }, request: () => ({ path: "/transfers", body: `{"amount":"1.15"}` }) }],
    answers: {
      submission: { succeeded: (about) => ({ ...one(about), status: 201 }) },
      status: { succeeded: one },
      ...byOperationId
    }
  })

const bothForms = {
  statusByOperationId: {
    isList: true,
    // The adapter reads the transfer that it finds.
    succeeded: (about: ProviderContract.AnswerSubject) =>
      about.request.path.startsWith("/transfers/") ? one(about) : page(null, transfer(about)),
    notFound: () => page(null),
    pageBefore: (about: ProviderContract.AnswerSubject) => page("2", transfer(about))
  }
}

describe("An adapter whose bank answers in two forms", () => {
  for (const { name, run } of contract({}, bothForms)) it(name, () => Effect.runPromise(run))
})

const ofList = (rule: string) => `readStatus by the operation's id: ${rule}`
const [another, among, nextPage] = [
  "a list of another operation alone proves nothing",
  "an operation among others is Proven as succeeded",
  "an operation on the next page is Proven as succeeded"
].map(ofList)

describe("The kit finds an adapter that", () => {
  const ownAt = (n: number): Search => ({
    find: (transfers, id) => [transfers.at(n)].find((transfer) => transfer?.key === id)
  })
  const isProven = /must say Proven with succeeded/
  const mistakes: ReadonlyArray<readonly [what: string, Search, ByOperationId, caught: string, RegExp]> = [
    [
      "finds nothing in the list",
      { find: () => undefined },
      bothForms,
      ofList("a success is Proven as succeeded"),
      isProven
    ],
    ["takes the first transfer", { find: ([first]) => first }, bothForms, another!, /must say NotFound or NotProven/],
    ["looks at the newest transfer alone", ownAt(0), bothForms, among!, isProven],
    ["looks at the oldest transfer alone", ownAt(-1), bothForms, among!, isProven],
    ["reads one page", { after: () => null }, bothForms, nextPage!, isProven],
    ["reads the first page again", { after: (next) => next && "/transfers" }, bothForms, nextPage!, isProven],
    [
      "says not found before the last page",
      { after: () => null },
      bothForms,
      ofList("pages of others without a last one prove nothing"),
      /must say NotProven here/
    ],
    [
      "has a list that no answer of the bank declares",
      {},
      {},
      "readStatus: without a reference it reads by the id, or proves nothing",
      /declare it in answers\.statusByOperationId/
    ]
  ]
  for (const [what, search, byOperationId, caught, rule] of mistakes) {
    it.effect(what, () => {
      const { run } = contract(search, byOperationId).find(({ name }) => name === caught)!
      return Effect.map(Effect.flip(run), ({ message }) => assert.match(message, rule))
    })
  }
})

it("The kit asks for a page that is not the last one, or null", () => {
  const { pageBefore: _, ...undecided } = bothForms.statusByOperationId
  assert.throws(
    () => contract({}, { statusByOperationId: undecided }),
    /answers\.statusByOperationId\.pageBefore, or null/
  )
})
