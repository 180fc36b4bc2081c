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
const Page = Schema.Struct({ transfers: Schema.Array(Transfer) })
type Transfers = typeof Page.Type["transfers"]

const order = HttpProvider.declareOrder({
  schema: Transfer,
  names: ({ id, key }) => ({ reference: id, operation_id: key }),
  result: () => ({ state: "succeeded" })
})

/** `find` takes the own transfer out of a list. */
const adapter = (find: (transfers: Transfers, id: string) => Transfers[number] | undefined) => (baseUrl: string) =>
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
          200: reference !== null ? order.read : HttpProvider.onBody(Page, ({ transfers }) => {
            const own = find(transfers, operation.id)
            if (own === undefined) return StatusAnswer.NotFound({ names: namesNothing, evidence: { found: 0 } })
            const path = `/transfers/${encodeURIComponent(own.id)}`
            return new HttpProvider.ReadOn({ path, decode: HttpProvider.byStatus({ 200: order.read }) })
          }),
          401: HttpProvider.wrongCredentials
        })(answer)
    }
  })

const transfer = ({ id, reference }: ProviderContract.AnswerSubject) => ({ id: reference, key: id })
const one = (about: ProviderContract.AnswerSubject) => ({ status: 200, body: transfer(about) })
const list = (...transfers: ReadonlyArray<ReturnType<typeof transfer>>) => ({ status: 200, body: { transfers } })

const contract = (
  find: Parameters<typeof adapter>[0],
  byOperationId: Pick<ProviderContract.ProviderContractOptions["answers"], "statusByOperationId">
) =>
  ProviderContract.cases({
    adapter: adapter(find),
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
      about.request.path === "/transfers" ? list(transfer(about)) : one(about),
    notFound: () => list()
  }
}

const byKey = (transfers: Transfers, id: string) => transfers.find(({ key }) => key === id)

describe("An adapter whose bank answers in two forms", () => {
  for (const { name, run } of contract(byKey, bothForms)) it(name, () => Effect.runPromise(run))
})

describe("The kit finds an adapter that", () => {
  const mistakes: ReadonlyArray<readonly [string, Parameters<typeof contract>, caught: string, RegExp]> = [
    [
      "finds nothing in the list",
      [() => undefined, bothForms],
      "readStatus by the operation's id: a success is Proven as succeeded",
      /must say Proven/
    ],
    [
      "takes the first transfer of a list",
      [([first]) => first, bothForms],
      "readStatus by the operation's id: a list of another operation alone proves nothing",
      /must say NotFound or NotProven/
    ],
    [
      "has a list that no answer of the bank declares",
      [byKey, {}],
      "readStatus: without a reference it reads by the id, or proves nothing",
      /declare it in answers\.statusByOperationId/
    ]
  ]
  for (const [what, options, caught, rule] of mistakes) {
    it.effect(what, () => {
      const { run } = contract(...options).find(({ name }) => name === caught)!
      return Effect.map(Effect.flip(run), ({ message }) => assert.match(message, rule))
    })
  }
})
