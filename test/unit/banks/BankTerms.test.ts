/** The payee of a transfer, by which limits, approvals and operators decide, names all that selects the account at the bank. */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as fc from "fast-check"
import * as Increase from "../../../src/banks/Increase.ts"
import { CreditTransfer, creditTransferTerms } from "../../../src/banks/iso20022.ts"
import { bindingMessageOf } from "../../../src/ciba/CibaApprovals.ts"
import { isTerms, maskTerms, termsIn } from "../../../src/domain/Terms.ts"
import { visible } from "../../../src/domain/VisibleText.ts"
import { payment } from "../../fixtures/banks/openBankingUk.ts"

/** Text that may imitate the separators of a payee. */
const text = fc.array(fc.constantFrom("A", " A", "|", "agent", "secondary A | ", "agent A A | "), {
  minLength: 1,
  maxLength: 2
})
  .map((parts) => parts.join("").slice(0, 20))
const maybe = (arbitrary: fc.Arbitrary<string>) => fc.option(arbitrary, { nil: undefined })

const present = (members: object) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

const payees = <T>(schema: Schema.ConstraintDecoder<T>, terms: (payload: T) => { readonly payee: string }) => {
  const decode = Schema.decodeUnknownResult(schema)
  return (payload: unknown) => Result.getOrNull(Result.map(decode(payload), (decoded) => terms(decoded).payee))
}

/** Transfers that differ in what selects the payee have different payees. Those that the schema refuses have none. */
const assertDistinct = (one: object, other: object, payeeOf: (target: object) => string | null) => {
  const [first, second] = [payeeOf(one), payeeOf(other)]
  if (first === null || second === null) return
  assert.strictEqual(first === second, JSON.stringify(one) === JSON.stringify(other), `${first} and ${second}`)
}

const of = (SchemeName: string, Identification: string, SecondaryIdentification?: string) => ({
  CreditorAccount: { ...present({ SchemeName, Identification, SecondaryIdentification }), Name: "ACME Inc" }
})

const achRest = { account_id: "account_1", amount: "1.00", currency: "USD", statement_descriptor: "Rent" }

describe("The payee of terms", () => {
  it("differs for credit transfers to different accounts or agents", () => {
    const payeeOf = payees(CreditTransfer, creditTransferTerms)
    const target = fc.record({
      account: fc.record({ SchemeName: text, Identification: text, SecondaryIdentification: maybe(text) }),
      agent: fc.option(fc.record({ SchemeName: text, Identification: text, LEI: maybe(text) }), { nil: undefined })
    }).map(({ account, agent }) =>
      present({
        CreditorAccount: { ...present(account), Name: "ACME Inc" },
        CreditorAgent: agent && present(agent)
      })
    )
    fc.assert(
      fc.property(
        target,
        target,
        (one, other) => assertDistinct(one, other, (to) => payeeOf({ ...payment.Data.Initiation, ...to }))
      ),
      {
        numRuns: 5000,
        examples: [
          [of("A A", "A"), of("A", "A A")],
          [of("secondary", "A | A A"), of("A", "A", "A")],
          [of("agent", "A A | A A"), { ...of("A", "A"), CreditorAgent: { SchemeName: "A", Identification: "A" } }]
        ]
      }
    )
  })

  it.each<[string, object, string]>([
    ["an account", {}, "UK.OBIE.SortCodeAccountNumber 08080021325698"],
    [
      "a roll number",
      { CreditorAccount: { ...payment.Data.Initiation.CreditorAccount, SecondaryIdentification: "0002" } },
      "secondary 0002 | UK.OBIE.SortCodeAccountNumber 08080021325698"
    ],
    [
      "another bank",
      { CreditorAgent: { SchemeName: "UK.OBIE.BICFI", Identification: "BARCGB22", LEI: "5493", Name: "A bank" } },
      "agent UK.OBIE.BICFI BARCGB22 | LEI 5493 | UK.OBIE.SortCodeAccountNumber 08080021325698"
    ]
  ])("names %s", (_, to, payee) => {
    assert.strictEqual(payees(CreditTransfer, creditTransferTerms)({ ...payment.Data.Initiation, ...to }), payee)
  })

  it.each<[string, object]>([
    ["a blank in the name of a scheme", {
      CreditorAccount: { SchemeName: "A B", Identification: "C", Name: "ACME Inc" }
    }],
    ["an agent that has a name alone", { CreditorAgent: { Name: "A bank" } }]
  ])("is of no transfer with %s, which the ledger refuses", (_, to) => {
    assert.isNull(payees(CreditTransfer, creditTransferTerms)({ ...payment.Data.Initiation, ...to }))
  })

  it("has no hidden character, which could reorder what an approver reads", () => {
    const { CreditorAccount: account } = payment.Data.Initiation
    const agent = { SchemeName: "UK.OBIE.BICFI", Identification: "BARCGB22", LEI: "5493" }
    const transfer = (to: object) => [CreditTransfer, { ...payment.Data.Initiation, ...to }] as const
    const ach = (to: object) => [Increase.AchTransfer, { ...achRest, ...to }] as const
    const own = { account_id: "account_1", amount: "1.00", currency: "USD", description: "Rent" }
    const payloads = (hidden: string) => [
      transfer({ CreditorAccount: { ...account, SchemeName: `UK.OBIE.IBAN${hidden}` } }),
      transfer({ CreditorAccount: { ...account, Identification: `GB33${hidden}` } }),
      transfer({ CreditorAccount: { ...account, SecondaryIdentification: `2${hidden}` } }),
      transfer({ CreditorAgent: { ...agent, SchemeName: `UK.OBIE.BICFI${hidden}` } }),
      transfer({ CreditorAgent: { ...agent, Identification: `BARCGB22${hidden}` } }),
      transfer({ CreditorAgent: { ...agent, LEI: `5493${hidden}` } }),
      ach({ external_account_id: `account_2${hidden}` }),
      ach({ routing_number: "101050001", account_number: `1${hidden}` }),
      [Increase.AccountTransfer, { ...own, destination_account_id: `account_2${hidden}` }] as const
    ]
    const fits = ([schema, payload]: ReturnType<typeof payloads>[number]) => Schema.is(schema)(payload)
    assert.deepStrictEqual(payloads("").map(fits), payloads("").map(() => true))
    // Bidirectional marks, a joiner, a filler, a line end, a wide blank.
    for (const hidden of ["\u2067", "\u200f", "\u200d", "\u3164", "\n", "\u00a0"]) {
      assert.deepStrictEqual(payloads(hidden).map(fits), payloads("").map(() => false), visible(hidden))
    }
  })

  it.each<[string, object]>([
    ["a proxy", {
      CreditorAccount: { ...payment.Data.Initiation.CreditorAccount, Proxy: { Identification: "1", Code: "TELE" } }
    }],
    ["an ultimate creditor", { UltimateCreditor: { Name: "Another", Identification: "1" } }]
  ])("is of no transfer with %s: a type of operation with terms refuses it", (_, to) => {
    const transfer = Schema.decodeUnknownSync(CreditTransfer)({ ...payment.Data.Initiation, ...to })
    assert.isFalse(isTerms(termsIn(creditTransferTerms, transfer)))
  })

  it("differs for ACH transfers to different accounts", () => {
    const payeeOf = payees(Increase.AchTransfer, Increase.achTransferTerms)
    const digits = fc.constantFrom("101050001", "101050002")
    const target = fc.oneof(
      fc.record({ external_account_id: fc.oneof(text, fc.constant("101050001 A")) }),
      fc.record({
        routing_number: digits,
        account_number: text.map((one) => one.slice(0, 17)),
        funding: maybe(fc.constantFrom("checking", "savings"))
      }).map(present)
    )
    fc.assert(
      fc.property(target, target, (one, other) => assertDistinct(one, other, (to) => payeeOf({ ...achRest, ...to }))),
      {
        numRuns: 5000,
        examples: [[{ external_account_id: "101050001 A" }, { routing_number: "101050001", account_number: "A" }]]
      }
    )
  })

  it("has another mask and another binding message for each roll number of an account", () => {
    const shown = ["6789-0002", "6789-0003"].map((roll) => {
      const to = of("UK.OBIE.SortCodeAccountNumber", "08080021325698", roll)
      const payee = payees(CreditTransfer, creditTransferTerms)({ ...payment.Data.Initiation, ...to })!
      const terms = { amount: "1.00", currency: "GBP", payee }
      return [maskTerms(terms).payee, bindingMessageOf(20)(terms), bindingMessageOf(90)(terms)]
    })
    assert.deepStrictEqual(shown, [
      ["••••0002 | ••••5698", null, "1.00GBP/secondary?6789-0002???UK.OBIE.SortCodeAccountNumber?08080021325698"],
      ["••••0003 | ••••5698", null, "1.00GBP/secondary?6789-0003???UK.OBIE.SortCodeAccountNumber?08080021325698"]
    ])
  })

  it("has another mask for each account", () => {
    const masks = (payeeOf: (account: string) => string | null) =>
      ["08080021325698", "08080021325699"].map((account) =>
        maskTerms({ amount: "1.00", currency: "USD", payee: payeeOf(account)! }).payee
      )
    const agent = { SchemeName: "UK.OBIE.BICFI", Identification: "BARCGB22", LEI: "5493" }
    const creditTransfer = payees(CreditTransfer, creditTransferTerms)
    const ach = payees(Increase.AchTransfer, Increase.achTransferTerms)
    assert.deepStrictEqual(
      [
        masks((account) =>
          creditTransfer({
            ...payment.Data.Initiation,
            ...of("UK.OBIE.SortCodeAccountNumber", account, "0002"),
            CreditorAgent: agent
          })
        ),
        masks((account_number) => ach({ ...achRest, routing_number: "101050001", account_number, funding: "checking" }))
      ],
      [
        ["••••GB22 | •••• | ••••0002 | ••••5698", "••••GB22 | •••• | ••••0002 | ••••5699"],
        ["••••5698", "••••5699"]
      ]
    )
  })
})
