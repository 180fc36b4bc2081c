/** Judges from the evidence of a run whether every rule was kept. */
import { Duration } from "effect"
import { canTransition, isEvidence, isTerminal, requiresEvidence } from "../../../../src/domain/Operation.ts"
import type { Receipt } from "../../../../src/sandbox/Record.ts"
import { type Bank, banks } from "./Banks.ts"
import type { Evidence, FinalOperation, Step } from "./Evidence.ts"
import { atLeast, atMost, counted, type Figure, type Figures } from "./Figure.ts"
import { blows, crashPoints, policy, windowOf } from "./Plan.ts"
import type { Outage } from "./Postgres.ts"

/** Keys that the provider received, in whole, more than once. */
export const doubleSubmissions = (receipts: ReadonlyArray<Receipt>): ReadonlyArray<string> =>
  [...Map.groupBy(receipts.filter(isComplete), ({ key }) => key)].flatMap(([key, all]) =>
    all.length > 1 ? [`${key}: received ${all.length} times, ${all.at(-1)!.outcome}`] : []
  )

/** A complete submission of a worker: no order of a fence, and no cancellation of one. */
const isComplete = ({ fence, outcome }: Receipt) =>
  fence !== true && !["incomplete", "cancelled", "approved"].includes(outcome)

/** Keys that a worker sent more than once, received or not. Fences send theirs again, and the record of the provider tells them apart. */
export const doubleSends = (
  sent: Iterable<readonly [key: string, times: number]>,
  fenced: ReadonlySet<string> = new Set()
): ReadonlyArray<string> =>
  [...sent].filter(([key, times]) => times > 1 && !fenced.has(key)).map(([key, times]) => `${key}: sent ${times} times`)

/** Submissions that the provider received, and whose operation is unknown. */
export const unknownSubmissions = (receipts: ReadonlyArray<Receipt>, known: ReadonlySet<string>) =>
  receipts.filter((receipt) => isComplete(receipt) && !known.has(receipt.key)).map(({ key, outcome }) =>
    `${key}: ${outcome}`
  )

/** Answers to clients with an operation that the ledger does not have, or has twice. */
const lostOperations = ({ acceptances, operations }: Evidence): ReadonlyArray<string> => {
  const byKey = new Map(operations.map(({ id, key }) => [key, id]))
  return acceptances.flatMap(({ created, ids, key, refused }) => {
    if (refused === true) return []
    const id = byKey.get(key)
    if (id === undefined) return [`${key}: not in the ledger`]
    if (created > 1) return [`${key}: created ${created} times`]
    return ids.size === 1 && ids.has(id) ? [] : [`${key}: answered as ${[...ids].join(", ")}, stored as ${id}`]
  })
}

/** The result of a submission at the provider. */
type Result = "succeeded" | "failed" | "pending" | "never"

const results = ({ truths }: Evidence): ReadonlyMap<string, Result> =>
  new Map(truths.map(({ key, status }) => [key, status === "absent" || status === "refused" ? "never" : status]))

/** Keys that the provider rejected: an answered rejection counts as a failure. */
const refusals = (receipts: ReadonlyArray<Receipt>): ReadonlySet<string> =>
  new Set(receipts.filter(({ outcome }) => outcome === "rejected").map(({ key }) => key))

/** What no status read settles with a provider. */
const unsettledWith = (provider: string): Bank["unsettled"] =>
  (banks as Readonly<Record<string, Bank>>)[provider]?.unsettled
    ?? { unreceived: windowOf(provider) === null, refused: false, ordered: false }

/** Why an operation that is `indeterminate` is not settled, and may stay so. */
type Reason = keyof Bank["unsettled"] | "pending"

/** Null: nothing keeps it from being settled. */
const reasonOf = (
  { id, provider, reference }: FinalOperation,
  resultOf: ReadonlyMap<string, Result>,
  refused: ReadonlySet<string>
): Reason | null => {
  const result = resultOf.get(id) ?? "never"
  if (result === "never") return refused.has(id) ? "refused" : "unreceived"
  if (reference === null && unsettledWith(provider).ordered) return "ordered"
  return result === "pending" ? "pending" : null
}

/** The operations that a person must end, by what the provider knows of them. */
export const forPeople = (evidence: Evidence) => {
  const [resultOf, refused] = [results(evidence), refusals(evidence.receipts)]
  return evidence.operations.flatMap((operation) => {
    if (operation.state !== "indeterminate") return []
    const reason = reasonOf(operation, resultOf, refused)
    return reason === null || reason === "pending" ? [] : [reason]
  })
}

/** Settled operations that contradict the provider's record, or that report nothing sent although it was. */
const contradictions = (evidence: Evidence): ReadonlyArray<string> => {
  const resultOf = results(evidence)
  const refusedAsLate = new Set(
    evidence.receipts.filter(({ outcome }) => outcome === "too_late").map(({ key }) => key as string)
  )
  const agrees = ({ failure_code, id, state }: FinalOperation): boolean => {
    const result = resultOf.get(id) ?? "never"
    switch (state) {
      case "succeeded":
        return result === "succeeded"
      case "failed":
        if (failure_code === "provider_unreachable" && evidence.sent.has(id)) return refusedAsLate.has(id)
        return result === "failed" || result === "never"
      case "cancelled":
        return result === "never" && !evidence.sent.has(id)
      default:
        return true
    }
  }
  return evidence.operations.filter((operation) => !agrees(operation)).map(({ failure_code, id, state }) =>
    `${id}: ${state} ${failure_code ?? ""}; the provider's record: ${resultOf.get(id) ?? "never received"}`
  )
}

/**
 * Operations that are unsettled and should not be: they have no schedule, or the provider has a final status, or
 * its documented window is evidence that it received nothing.
 */
export const abandoned = (evidence: Pick<Evidence, "operations" | "receipts" | "truths">): ReadonlyArray<string> => {
  const resultOf = results(evidence as Evidence)
  const refused = refusals(evidence.receipts)
  return evidence.operations.flatMap((operation) => {
    const { due_at, id, provider, state } = operation
    if (isTerminal(state)) return []
    if (due_at === null) return [`${id}: ${state}, without a schedule`]
    const result = resultOf.get(id) ?? "never"
    const reason = reasonOf(operation, resultOf, refused)
    const mayStay = state === "indeterminate"
      ? reason === "pending" || reason !== null && unsettledWith(provider)[reason]
      : state === "submitted" && result === "pending"
    return mayStay ? [] : [`${id}: ${state} with ${provider}; the provider's record: ${result}`]
  })
}

const illegalStep = (step: Step, before: Step | undefined): string | null => {
  const { evidence, from_state, revision, to_state } = step
  if (before === undefined) {
    return from_state === null && to_state === "accepted" && revision === 1 ? null : "does not start as accepted"
  }
  if (revision !== before.revision + 1) return `revision ${revision} after ${before.revision}`
  if (from_state !== before.to_state) return `from ${from_state}, but the state was ${before.to_state}`
  if (!canTransition(from_state, to_state)) return `from ${from_state} to ${to_state}`
  if (requiresEvidence(from_state) && !isEvidence(evidence)) return `out of ${from_state} without proof`
  return step.at < before.at ? "earlier than the step before" : null
}

const illegalSteps = ({ history, operations }: Evidence): ReadonlyArray<string> => {
  const byOperation = Map.groupBy(history, ({ operation_id }) => operation_id)
  return operations.flatMap(({ id, revision, state }) => {
    const steps = byOperation.get(id) ?? []
    const last = steps.at(-1)
    const wrong = steps.flatMap((step, index) => illegalStep(step, steps[index - 1]) ?? [])
    if (last?.revision !== revision || last.to_state !== state) wrong.push("does not end in the state of the operation")
    return wrong.map((text) => `${id}: ${text}`)
  })
}

/** How long the database was available in a period, in milliseconds. */
const withoutOutages = (from: number, to: number, outages: ReadonlyArray<Outage>): number =>
  outages.reduce(
    (time, outage) => time - Math.max(0, Math.min(to, outage.to) - Math.max(from, outage.from)),
    to - from
  )

/** A period in `submitting`: its start in milliseconds since 1970, and its length without outages of the database. */
interface Stay {
  readonly id: string
  readonly from: number
  readonly to: number
  readonly lasted: number
}

/**
 * How long each operation was `submitting`, by its history: all operations, not only those in a sample. Those whose claim was
 * returned do not count, because they wait there. Nor do periods in which the database was down, from the kill to the first
 * answer after it.
 */
const staysInSubmitting = ({ history, outages, returned }: Evidence): ReadonlyArray<Stay> =>
  history.flatMap((step, index) => {
    const next = history[index + 1]
    if (step.to_state !== "submitting" || next?.operation_id !== step.operation_id) return []
    if (returned.has(step.operation_id)) return []
    const [from, to] = [step.at.getTime(), next.at.getTime()]
    return [{ id: step.operation_id, from, to, lasted: withoutOutages(from, to, outages) }]
  })

/** With the faults from ten seconds before the claim on, in milliseconds from the claim: one may be the cause. */
const describeStay = ({ injected }: Evidence, { from, id, lasted, to }: Stay): string => {
  const faults = injected.filter(({ at }) => at > from - 10_000 && at < to)
  return `${id}: ${lasted} ms; ${faults.map(({ at, name }) => `${name} ${at - from}`).join(", ")}`
}

/** The longest time that a sample saw a claim held, by the database's clock. */
const longestHeld = ({ outages, samples }: Evidence): number =>
  samples.reduce(
    (longest, { at, heldSince }) =>
      heldSince === null ? longest : Math.max(longest, withoutOutages(heldSince, at, outages)),
    0
  )

const stuck = (evidence: Evidence, slack: number): Figures => {
  const longestAllowed = Duration.toMillis(policy.rescueAfter) + slack
  const stays = staysInSubmitting(evidence)
  const over = stays.filter(({ lasted }) => lasted > longestAllowed)
  const longest = stays.reduce((most, { lasted }) => Math.max(most, lasted), 0)
  return {
    stuck: counted(
      `operations submitting for longer than ${longestAllowed} ms`,
      over.map((stay) => describeStay(evidence, stay))
    ),
    longest: atMost("longest time submitting, by history (ms)", longest, longestAllowed),
    held: atMost("longest time claimed, by samples (ms)", Math.round(longestHeld(evidence)), longestAllowed)
  }
}

const mostClaims = ({ history }: Evidence): Figure => {
  const claims = Map.groupBy(
    history.filter(({ to_state }) => to_state === "submitting"),
    ({ operation_id }) => operation_id
  )
  const most = claims.values().reduce((most, { length }) => Math.max(most, length), 0)
  return atMost("claims of one operation", most, 1)
}

const unvisited = ({ injected }: Evidence): ReadonlyArray<string> =>
  crashPoints.filter((point) => !injected.some(({ name }) => blows.some((blow) => name === `${blow} ${point}`)))

/**
 * Every figure that decides about a run. `slack` is how many milliseconds a rescue may be late: a second, unless the
 * machine is shared with others.
 */
export const judge = (evidence: Evidence, slack = 1000) =>
  ({
    accepted: atLeast("operations accepted", evidence.acceptances.length, evidence.asked.operations),
    injected: atLeast("faults injected", evidence.injected.length, evidence.asked.faults),
    ...evidence.asked.faults > 0 && { unvisited: counted("crash points not hit", unvisited(evidence)) },
    doubles: counted("double submissions, by the provider's record", doubleSubmissions(evidence.receipts)),
    doubleSends: counted("double sends, by the wire", doubleSends(evidence.sent, evidence.fenced)),
    lost: counted("operations lost", lostOperations(evidence)),
    unknown: counted(
      "submissions without an operation",
      unknownSubmissions(evidence.receipts, new Set(evidence.operations.map(({ id }) => id)))
    ),
    abandoned: counted("operations abandoned", abandoned(evidence)),
    contradictions: counted("settled against the provider's record", contradictions(evidence)),
    illegal: counted("illegal history rows", illegalSteps(evidence)),
    claims: mostClaims(evidence),
    ...stuck(evidence, slack),
    deaths: counted("workers that died by themselves", evidence.deaths)
  }) satisfies Figures
