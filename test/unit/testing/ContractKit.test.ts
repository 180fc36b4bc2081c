/**
 * The conformance kit tells what an adapter does wrong, once and in words, and checks the payloads that it declares. The tests run single cases of it.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Uncertain } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { type Adapter, caseNamed, type Mistake, withMistake } from "../../fixtures/testing/AdapterMistakes.ts"
import { sandboxContract, sandboxRequest } from "../../fixtures/testing/sandboxContract.ts"

describe("The conformance kit checks that the declared payloads", () => {
  const accepts = "payloads: the adapter can send the payload of the kit"
  const refuses = "payloads: the declared schema refuses the invalid payload"
  const Payment = Schema.Struct({ amount: Schema.String, creditor: Schema.String })
  const contract = (payloads: Partial<Adapter>) =>
    ProviderContract.cases({
      ...sandboxContract,
      adapter: withMistake(() => payloads),
      invalidPayloads: [{ amount: 12, creditor: "Landlord of May" }]
    })

  it.effect("accept the payload and refuse the invalid one", () =>
    Effect.forEach(
      contract({ payloads: { payment: Payment } }).filter(({ name }) => name === accepts || name === refuses),
      ({ run }) => run
    ))

  const wrong: ReadonlyArray<readonly [what: string, caught: string, payloads: Partial<Adapter>, rule: RegExp]> = [
    ["exist", refuses, {}, /must declare a payload for the type payment/],
    [
      "have requests of their own for each type",
      "payloads: each declared type has expected requests",
      { payloads: { payment: Payment, book_transfer: Payment } },
      /call `cases` for book_transfer/
    ],
    ["are of the operation's type", accepts, { payloads: { transfer: Payment } }, /for the type payment/],
    [
      "accept the payload",
      accepts,
      { payloads: { payment: Schema.Struct({ ...Payment.fields, iban: Schema.String }) } },
      /must accept each payload.* iban: /
    ],
    [
      "refuse the invalid payload",
      refuses,
      { payloads: { payment: Schema.Unknown } },
      /must refuse the invalid payload/
    ]
  ]
  for (const [what, caught, payloads, rule] of wrong) {
    it.effect(what, () => {
      const { run } = contract(payloads).find(({ name }) => name === caught)!
      return Effect.map(Effect.flip(run), ({ message }) => assert.match(message, rule))
    })
  }

  it.effect("accept the payload, in one case only: no other case fails for it", () =>
    Effect.gen(function*() {
      const cases = contract({ payloads: { payment: Schema.Struct({ iban: Schema.String }) } })
      const submissions = cases.filter(({ name }) => name.startsWith("submit: "))
      assert.isAbove(submissions.length, 40)
      const broken = yield* Effect.forEach(
        [...submissions, cases.find(({ name }) => name === accepts)!],
        ({ name, run }) => Effect.match(run, { onSuccess: () => [], onFailure: () => [name] }),
        { concurrency: 8 }
      )
      assert.deepStrictEqual(broken.flat(), [accepts])
    }))
})

describe("The conformance kit", () => {
  const withExpected = (options: Partial<ProviderContract.ProviderContractOptions>) => () =>
    ProviderContract.cases({ ...sandboxContract, ...options, adapter: withMistake(() => ({})) })

  it("requires the requests that the bank must get", () => {
    assert.throws(withExpected({ expects: [] }), /declare in expects a payload/)
  })

  it("requires that each member of the terms changes the request, or that the schema refuses the change", () => {
    const terms = { amount: "12.50", currency: "EUR", payee: "Landlord" }
    const changes = [{ ...terms, amount: "1.15" }, { ...terms, currency: "USD" }, { ...terms, payee: "Baker" }]
    const declared = (payloads: ReadonlyArray<typeof terms>, invalid: ReadonlyArray<typeof terms> = []) =>
      withExpected({
        terms: (payload: typeof terms) => payload,
        expects: payloads.map(sandboxRequest),
        invalidPayloads: invalid
      })
    assert.doesNotThrow(declared([terms, ...changes]))
    assert.doesNotThrow(declared([terms, changes[0]!, changes[2]!], [changes[1]!]))
    for (const [n, member] of ["amount", "currency", "payee"].entries()) {
      const others = [{ ...terms, amount: "1.15", currency: "CHF", payee: "Miller" }, ...changes.toSpliced(n, 1)]
      assert.throws(declared([terms, ...others]), new RegExp(`differ in the ${member} alone`))
    }
    assert.throws(declared([{ ...terms, amount: "12.505" }]), /invalid terms/)
    assert.throws(declared([terms, { ...terms, amount: "13.00" }, ...changes.slice(1)]), /floating point/)
    const same = [terms, ...changes].map((payload) => ({ ...sandboxRequest(terms), payload }))
    assert.throws(withExpected({ terms: (payload: typeof terms) => payload, expects: same }), /must reach the bank/)
  })

  it("requires an answer that accepts a submission", () => {
    assert.throws(
      () =>
        ProviderContract.cases({ ...sandboxContract, answers: { submission: {} }, adapter: withMistake(() => ({})) }),
      /declare answers\.submission/
    )
  })

  it.effect("says where it looked for the idempotency key, unless it was told where", () => {
    const adapter = withMistake(() => ({ submit: () => Effect.fail(new Uncertain({ reason: "nothing sent" })) }))
    const name = "submit: each attempt of an operation has its id as idempotency key, and another operation has another"
    const failure = (contract: Partial<ProviderContract.ProviderContractOptions>) =>
      Effect.flip(
        ProviderContract.cases({ ...sandboxContract, ...contract, adapter }).find((one) => one.name === name)!.run
      )
    return Effect.gen(function*() {
      const hint =
        "The kit looked in the header Idempotency-Key; if the bank takes the key elsewhere, set idempotencyKey"
      assert.include((yield* failure({})).message, hint)
      assert.notInclude((yield* failure({ idempotencyKey: () => undefined })).message, "The kit looked")
    })
  })

  it.effect("reports a key in another header once, and without frames of a stack", () =>
    Effect.gen(function*() {
      const adapter = withMistake(() => ({}))
      const contract = {
        ...sandboxContract,
        idempotencyKey: ({ headers }) => headers["x-other-key"],
        adapter
      } satisfies ProviderContract.ProviderContractOptions
      const failures = yield* Effect.forEach(
        ProviderContract.cases(contract),
        ({ run }) => Effect.match(run, { onSuccess: () => [], onFailure: (violation) => [violation] })
      )
      const [violation, ...others] = failures.flat()
      assert.include(violation!.message, "The idempotency key must be the operation's id")
      assert.isEmpty(others)
      assert.notMatch(violation!.stack!, /^ +at /m)
    }))

  it.effect("counts an adapter that dies or never ends as uncertain, as a worker does", () =>
    Effect.gen(function*() {
      const name = "submit: a bank that never answers leaves the outcome uncertain"
      yield* caseNamed(name, withMistake(() => ({ submit: () => Effect.die("broken") }))).run
      const never = ProviderContract.cases({
        ...sandboxContract,
        adapter: withMistake(() => ({ submit: () => Effect.never })),
        patience: 50
      })
      yield* never.find((one) => one.name === name)!.run
    }))

  it.effect("does not count requests for access tokens", () => {
    const mistake: Mistake = ({ submit }, client, baseUrl) => ({
      submit: (operation, payload) =>
        Effect.andThen(Effect.orDie(client.get(`${baseUrl}/token`)), submit(operation, payload))
    })
    const isToken = ({ path }: ProviderContract.AnswerSubject["request"]) => path === "/token"
    const contract = {
      ...sandboxContract,
      adapter: withMistake(mistake),
      otherRequests: (request: ProviderContract.AnswerSubject["request"]) =>
        isToken(request) ? { status: 200, body: {} } : undefined
    }
    return ProviderContract.cases(contract).find(({ name }) => name === "submit: a success is Succeeded")!.run
  })
})
