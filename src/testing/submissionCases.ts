/**
 * The cases of the conformance kit for `submit`, and for the declared `payloads`: their schema refuses at the acceptance what the adapter
 * cannot send.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { PayloadSchemas } from "../domain/PayloadSchemas.ts"
import { termsIn, wholeCurrencies } from "../domain/Terms.ts"
import { type Behaviour, bytesOf, closedBank, contractBank, unknownBank } from "./ContractBank.ts"
import {
  answering,
  caseOf,
  caseWith,
  type ContractCase,
  declaredCases,
  foreignCases,
  type Kit,
  listOf,
  type MakeCase,
  subjectOf
} from "./ContractCase.ts"
import {
  atMostOnce,
  bodyDecides,
  ContractViolation,
  keysAre,
  mayBeTriedAgain,
  notSentIsTrue,
  operatorCanRepair,
  type Rule,
  says,
  sendsExactly,
  sendsNothing
} from "./contractRules.ts"
import { declaredPayloads, operationIds, submitting, whyRefused } from "./ContractScene.ts"
import { hostileAnswers } from "./hostileAnswers.ts"

/** A case that reads the declared payloads, and returns the broken rule or null. */
const payloadCase = (
  kit: Kit,
  rule: string,
  judge: (payloads: PayloadSchemas | undefined) => Effect.Effect<string | null>
): ContractCase => {
  const name = `payloads: ${rule}`
  const declared = Effect.flatMap(closedBank(kit.otherRequests), (bank) => declaredPayloads(kit.subject, bank)).pipe(
    Effect.scoped
  )
  return {
    name,
    run: Effect.flatMap(
      Effect.flatMap(declared, judge),
      (broken) =>
        broken === null ? Effect.void : Effect.fail(new ContractViolation({ message: `${name}\n  rule: ${broken}` }))
    )
  }
}

/** The end of the name of the case for the n-th of a list. */
const nth = (n: number, what: string) => n === 0 ? "" : `, ${what} ${n + 1}`

/** Replaces each text of a payload that the map has. */
const withTexts = (payload: Schema.Json, texts: ReadonlyMap<string, string>): Schema.Json =>
  typeof payload === "string"
    ? texts.get(payload) ?? payload
    : JSON.parse(JSON.stringify(payload), (_, value) => typeof value === "string" ? texts.get(value) ?? value : value)

/** An amount of yen in hundredths is a hundred times the amount. */
const wholeCurrencyCase = (
  kit: Kit,
  terms: NonNullable<Kit["terms"]>
): ContractCase => {
  const { expects, subject: { operation: { type }, payload } } = kit
  return payloadCase(
    kit,
    "a currency without decimals that the schema accepts has an expected request",
    Effect.fnUntraced(function*(payloads) {
      const isWhole = (sample: Schema.Json) => wholeCurrencies.includes(termsIn(terms, sample as never).currency)
      if (payloads === undefined || expects.some((one) => isWhole(one.payload))) return null
      const { amount, currency } = termsIn(terms, payload as never)
      for (const whole of wholeCurrencies) {
        const sample = withTexts(payload, new Map([[currency, whole], [amount, "750"]]))
        if (!isWhole(sample) || (yield* whyRefused(payloads, type, sample)) !== null) continue
        return `\`expects\` has no payload in a currency without decimals, and the schema accepts ${whole}. Add one with the request that the `
          + "bank must get, or let the schema refuse such currencies"
      }
      return null
    })
  )
}

/** All cases for `payloads`. */
export const payloadCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const { expects, invalidPayloads, otherTypes, subject: { operation: { type } }, terms } = kit
  const tested = [type, ...otherTypes]
  return [
    payloadCase(kit, "each declared type has expected requests", (payloads = {}) => {
      const missing = Object.keys(payloads).filter((declared) => !tested.includes(declared))
      return Effect.succeed(
        missing.length === 0
          ? null
          : `Each type of operation has a request of its own on the wire: call \`cases\` for ${missing.join(", ")} as `
            + "well, and name in `otherTypes` the types that have cases of their own"
      )
    }),
    ...terms === null ? [] : [wholeCurrencyCase(kit, terms)],
    ...expects.map(({ payload }, n) =>
      payloadCase(
        kit,
        `the adapter can send the payload of the kit${nth(n, "number")}`,
        (payloads) =>
          Effect.map(whyRefused(payloads, type, payload), (reason) =>
            reason === null
              ? null
              : `The schema of the adapter must accept each payload of \`expects\`. No case submits it until then. ${reason}`)
      )
    ),
    ...invalidPayloads.map((payload, n) =>
      payloadCase(
        kit,
        `the declared schema refuses the invalid payload${nth(n, "number")}`,
        (payloads) =>
          payloads === undefined
            ? Effect.succeed(`The adapter must declare a payload for the type ${type}`)
            : Effect.map(
              whyRefused(payloads, type, payload),
              (reason) => reason === null ? "The schema must refuse the invalid payload" : null
            )
      )
    )
  ]
}

/** The bank gets each payload exactly as it documents: an amount in cents is no amount in euros. */
const wireCases = (kit: Kit): ReadonlyArray<ContractCase> =>
  kit.expects.map(({ payload, request }, n) => {
    const subject = { ...kit.subject, payload }
    const sendBefore = new Date(0)
    return submission(
      { ...kit, subject },
      `the bank gets exactly the expected request, of payload ${n + 1}`,
      answering(kit, "own", kit.submission.accepted),
      [sendsExactly(() => request({ id: operationIds.own, sendBefore }))],
      (adapter, now) => {
        sendBefore.setTime(now.epochMilliseconds + 3_600_000)
        return submitting(subject)(adapter, now)
      }
    )
  })

/** A submission, which may send one request. */
const submission = (
  kit: Kit,
  name: string,
  behaviour: Behaviour,
  rules: ReadonlyArray<Rule>,
  call = submitting(kit.subject)
): ContractCase =>
  caseOf(kit, { name: `submit: ${name}`, behaviour, call, rules: [atMostOnce, ...rules, notSentIsTrue] })

/** The answers that the bank documents, about the operation and about another one. */
const documentedCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const { acknowledged, duplicate, refused, succeeded, unauthorized, unavailable } = kit.submission
  const make: MakeCase = (name, behaviour, rules) => submission(kit, name, behaviour, rules)
  return [
    ...declaredCases(kit, make, [
      ["an acknowledgement is Acknowledged", acknowledged, says("Acknowledged")],
      ["a success is Succeeded", succeeded, says("Succeeded")],
      [
        "a refusal is Rejected, with a declared code",
        refused,
        says("Rejected")
      ],
      [
        "a known idempotency key is no refusal, because the first request may have been carried out",
        duplicate,
        says("Uncertain", "Acknowledged", "Succeeded")
      ],
      [
        "refused credentials never end the operation, because an operator can repair them",
        unauthorized,
        says("NotSent", "Uncertain"),
        operatorCanRepair
      ],
      [
        "a wrong path never ends the operation, because an operator can repair it",
        kit.wrongPath,
        says("NotSent", "Uncertain"),
        operatorCanRepair
      ],
      ["a refusal for now is not final", unavailable, says("NotSent", "Uncertain"), mayBeTriedAgain]
    ]),
    ...foreignCases(kit, make, [
      ["acknowledgement", acknowledged],
      ["success", succeeded],
      ["refusal", refused]
    ])
  ]
}

const hostileCases = (kit: Kit): ReadonlyArray<ContractCase> =>
  hostileAnswers((request) => kit.submission.accepted(subjectOf(kit, "own", request))).map((hostility) =>
    submission(kit, `a bank that ${hostility.what} leaves the outcome uncertain`, hostility.behaviour, [
      ...hostility.rules ?? [],
      says("Uncertain")
    ])
  )

/** JSON that a proxy, a firewall or a framework sends with the status of a refusal. */
const foreignBodies: ReadonlyArray<Schema.Json> = [{}, { message: "Bad Request" }]

/** Statuses with which a bank may refuse. Proxies send them as well. */
const refusalStatuses = [400, 409, 422]

/** The body of a refusal must be declared, because others than the bank send its status as well. */
const foreignRefusals = (kit: Kit): ReadonlyArray<ContractCase> =>
  foreignBodies.flatMap((body) => {
    const text = JSON.stringify(body)
    return [
      ...refusalStatuses.map((status) =>
        submission(
          kit,
          `a bank that answers ${status} with ${text} has not refused`,
          answering(kit, "own", () => ({ status, body })),
          [bodyDecides, says("Uncertain", "NotSent")]
        )
      ),
      ...listOf(kit.submission.refused).map(({ answer }, n) =>
        submission(
          kit,
          `a foreign body with the status of a refusal${nth(n, "answer")}, ${text}, leaves the outcome uncertain`,
          answering(kit, "own", (subject) => ({ status: answer(subject).status, body })),
          [bodyDecides, says("Uncertain")]
        )
      )
    ]
  })

const unreachableCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const call = submitting(kit.subject)
  const rules = [says("NotSent"), sendsNothing, mayBeTriedAgain]
  return [
    caseWith(
      kit,
      "submit: nothing was sent if the bank refuses the connection",
      closedBank(kit.otherRequests),
      [call],
      rules
    ),
    caseWith(kit, "submit: nothing was sent if the name of the bank does not resolve", unknownBank, [call], rules),
    submission(
      kit,
      "a bank that resets each connection leaves the operation not sent, or uncertain",
      { onConnection: (socket) => socket.resetAndDestroy() },
      [says("NotSent", "Uncertain")]
    ),
    caseOf(kit, {
      name: "submit: nothing is sent after send_before",
      behaviour: answering(kit, "own", kit.submission.accepted),
      call: submitting(kit.subject, operationIds.own, "-1 minute"),
      rules: [sendsNothing, says("NotSent")]
    })
  ]
}

/** Three submissions: the worker sends an operation again after `NotSent`, and the key must be the same then. */
const keyCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const { own, foreign } = operationIds
  const behaviour: Behaviour = {
    onRequest: (socket, request) => void socket.end(bytesOf(kit.submission.accepted(subjectOf(kit, "own", request))))
  }
  const calls = [own, own, foreign].map((id) => submitting(kit.subject, id))
  const { keyHint, keyOf } = kit
  return keyOf === null ? [] : [
    caseWith(
      kit,
      "submit: each attempt of an operation has its id as idempotency key, and another operation has another",
      contractBank(behaviour, kit.otherRequests),
      calls,
      [keysAre(keyOf, [own, own, foreign], keyHint)]
    )
  ]
}

/** All cases for `submit`. */
export const submissionCases = (kit: Kit): ReadonlyArray<ContractCase> => [
  ...wireCases(kit),
  ...documentedCases(kit),
  ...unreachableCases(kit),
  ...hostileCases(kit),
  ...foreignRefusals(kit),
  ...keyCases(kit)
]
