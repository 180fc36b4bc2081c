/**
 * Judges a run by what clients sent and got, and by the sandbox's record. It knows nothing of the database, and nothing of the
 * processes of the gateway.
 */
import { counted, type Figures } from "../kit/Figure.ts"
import { doubleSends, doubleSubmissions, unknownSubmissions } from "../kit/Judge.ts"
import { type Evidence, type Exchange, isLimited, isSuccess, type Told } from "./History.ts"
import { resumesWithin } from "./Plan.ts"

/** An operation as one answer told it. */
interface Sighting extends Told {
  readonly kind: Exchange["kind"]
  readonly port: number
  readonly from: number
  readonly to: number
}

interface Operation {
  readonly id: string
  readonly sightings: ReadonlyArray<Sighting>
  /** The last answer to a read of this operation, as its read began: what it told, or null if it did not know it. */
  readonly last: { readonly from: number; readonly told: Told | null } | null
}

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`

const operationsOf = (history: ReadonlyArray<Exchange>): ReadonlyArray<Operation> => {
  const sightings = Map.groupBy(
    history.flatMap(({ from, kind, port, to, told }) =>
      told.map((one): Sighting => ({ ...one, kind, port, from, to }))
    ),
    ({ id }) => id
  )
  const reads = Map.groupBy(
    history.filter((exchange) => exchange.kind === "read" && (isSuccess(exchange) || exchange.status === 404)),
    ({ id }) => id!
  )
  return [...sightings].map(([id, seen]) => {
    const last = reads.get(id)?.reduce((latest, read) => read.from > latest.from ? read : latest)
    return { id, sightings: seen, last: last === undefined ? null : { from: last.from, told: last.told[0] ?? null } }
  })
}

/** Of two answers, the second belongs to a request that began after the first was complete. */
const precedes = (first: { readonly to: number }, second: { readonly from: number }) => first.to < second.from

const describe = ({ kind, port, revision, state, to }: Sighting) =>
  `revision ${revision} (${state}) by ${kind} at ${port}, ${seconds(to)}`

/** Two bodies for one revision, or a revision that the last read of the operation does not reach. */
const unsaidState = ({ id, last, sightings }: Operation): string | null => {
  const bodies = new Map<string, Sighting>()
  for (const sighting of sightings) {
    const name = `${sighting.revision} ${sighting.under_review}`
    const other = bodies.get(name) ?? sighting
    bodies.set(name, other)
    if (other.body !== sighting.body) return `${id}: ${describe(other)}, and another ${describe(sighting)}`
  }
  if (last === null) return null
  const told = sightings.filter((sighting) => precedes(sighting, last))
  const highest = told.reduce<Sighting | null>(
    (most, sighting) => most !== null && most.revision >= sighting.revision ? most : sighting,
    null
  )
  if (highest === null) return null
  if (last.told === null) return `${id}: ${describe(highest)}, and unknown at ${seconds(last.from)}`
  return last.told.revision >= highest.revision
    ? null
    : `${id}: ${describe(highest)}, and at ${seconds(last.from)} revision ${last.told.revision} (${last.told.state})`
}

/** A lower revision, by a request that began after the answer with the higher one. */
const goesBack = ({ id, sightings }: Operation): string | null => {
  const arrived = sightings.toSorted((one, other) => one.to - other.to)
  const begun = sightings.toSorted((one, other) => one.from - other.from)
  let index = 0
  let highest: Sighting | null = null
  for (const sighting of begun) {
    for (; index < arrived.length && precedes(arrived[index]!, sighting); index++) {
      if (highest === null || arrived[index]!.revision > highest.revision) highest = arrived[index]!
    }
    if (highest !== null && sighting.revision < highest.revision) {
      return `${id}: ${describe(highest)}, and then ${describe(sighting)}`
    }
  }
  return null
}

/** The operations that each key was acknowledged as, and when it first was. */
const acknowledgements = ({ history }: Evidence) =>
  [...Map.groupBy(history.filter((one) => one.kind === "accept" && isSuccess(one)), ({ key }) => key!)].map((
    [key, all]
  ) => ({
    key,
    at: Math.min(...all.map(({ to }) => to)),
    ids: [...new Set(all.flatMap(({ told }) => told.map(({ id }) => id)))]
  }))

/** Keys that were acknowledged, and whose operation is unknown at the end, or has a second one. */
const lostAcceptances = (evidence: Evidence, operations: ReadonlyMap<string, Operation>): ReadonlyArray<string> =>
  acknowledgements(evidence).flatMap(({ at, ids, key }) => {
    if (ids.length !== 1) return [`${key}: acknowledged as ${ids.join(" and ") || "nothing"}`]
    const last = operations.get(ids[0]!)?.last ?? null
    return last !== null && last.from > at && last.told === null
      ? [`${key}: acknowledged as ${ids[0]}, and unknown at ${seconds(last.from)}`]
      : []
  })

/** Keys without an answer, or whose operation no read decided after that. The run ended too early to judge them. */
const openKeys = (evidence: Evidence, operations: ReadonlyMap<string, Operation>): ReadonlyArray<string> => {
  const acknowledged = acknowledgements(evidence)
  const answered = new Set([
    ...acknowledged.map(({ key }) => key),
    ...evidence.history.filter(isLimited).map(({ key }) => key!)
  ])
  const asked = new Set(evidence.history.flatMap(({ key, kind }) => kind === "accept" ? [key!] : []))
  const unread = acknowledged.filter(({ at, ids }) =>
    ids.some((id) => (operations.get(id)?.last?.from ?? -Infinity) < at)
  )
  return [
    ...[...asked].filter((key) => !answered.has(key)).map((key) => `${key}: no answer`),
    ...unread.map(({ ids, key }) => `${key}: ${ids.join(", ")}, not read afterwards`)
  ]
}

const givesBack: ReadonlySet<string> = new Set(["failed", "cancelled"])

/** Grants under which more was accepted than their limits permit. What did not fail, or was not cancelled, may have been paid. */
const overspent = ({ history }: Evidence, operations: ReadonlyMap<string, Operation>): ReadonlyArray<string> => {
  const accepted = Map.groupBy(history.filter((one) => one.kind === "accept" && isSuccess(one)), ({ grant }) => grant)
  return history.flatMap(({ budget, grant }) => {
    if (budget === undefined || grant === undefined) return []
    const ids = [...new Set((accepted.get(grant) ?? []).flatMap(({ told }) => told.map(({ id }) => id)))]
    const kept = ids.filter((id) => !givesBack.has(operations.get(id)?.last?.told?.state ?? ""))
    return kept.length > budget ? [`${grant}: ${kept.length} of ${budget}`] : []
  })
}

/** When a grant was acknowledged as revoked. A revocation that was sent and not acknowledged may hold or not. */
const revocations = (history: ReadonlyArray<Exchange>) => {
  const begun = new Map<string, number>()
  const acknowledged = new Map<string, number>()
  for (const exchange of history) {
    if (exchange.kind !== "revoke") continue
    const { from, grant, to } = exchange
    begun.set(grant!, Math.min(begun.get(grant!) ?? Infinity, from))
    if (isSuccess(exchange)) acknowledged.set(grant!, Math.min(acknowledged.get(grant!) ?? Infinity, to))
  }
  return { begun, acknowledged }
}

const isRead = ({ kind }: Exchange) => kind === "read" || kind === "list" || kind === "feed"

const readsOfRevoked = ({ history }: Evidence): ReadonlyArray<string> => {
  const { acknowledged } = revocations(history)
  return history.flatMap((exchange) => {
    const at = acknowledged.get(exchange.grant ?? "")
    return at !== undefined && (isRead(exchange) || exchange.kind === "accept") && isSuccess(exchange) &&
        exchange.from > at
      ? [`${exchange.grant}: ${exchange.kind} at ${exchange.port}, ${seconds(exchange.from - at)} after the revocation`]
      : []
  })
}

const refusedReads = ({ history }: Evidence): ReadonlyArray<string> => {
  const { begun } = revocations(history)
  const issued = new Map(history.flatMap((one) => one.kind === "issue" && isSuccess(one) ? [[one.grant!, one.to]] : []))
  return history.flatMap((exchange) => {
    const { from, grant = "", kind, port, problem, status, to } = exchange
    const isRefused = status === 401 || status === 403
    return isRead(exchange) && isRefused && from > (issued.get(grant) ?? Infinity) &&
        to < (begun.get(grant) ?? Infinity)
      ? [
        `${grant}: ${kind} at ${port} is ${status} ${problem ?? ""}, ${
          seconds(from - issued.get(grant)!)
        } after its issue`
      ]
      : []
  })
}

/** Statuses that a correct client may get of a gateway whose database may be away. */
const allowedStatuses: ReadonlySet<number> = new Set([200, 201, 202, 204, 401, 403, 404, 410, 503])

const outsideOfContract = ({ history }: Evidence): ReadonlyArray<string> =>
  history.filter(({ status }) => status !== null && !allowedStatuses.has(status))
    .map(({ from, kind, port, problem, status }) => `${kind} at ${port}: ${status} ${problem ?? ""}, ${seconds(from)}`)

const sentStates: ReadonlySet<string> = new Set(["submitted", "succeeded"])

const neverReceived = ({ receipts }: Evidence, operations: ReadonlyMap<string, Operation>): ReadonlyArray<string> => {
  const received = new Set<string>(receipts.map(({ key }) => key))
  return [...operations.values()].flatMap(({ id, sightings }) => {
    const sighting = sightings.find(({ state }) => sentStates.has(state))
    return sighting === undefined || received.has(id) ? [] : [`${id}: ${describe(sighting)}`]
  })
}

/**
 * Operations that were submitted later than `resumesWithin` after their acknowledgement and after the last fault, or not at all
 * although they are `accepted` at the end. The time starts anew with each fault, and at the end of one that leaves no majority.
 * Operations of which a worker may have lost a claim are `indeterminate`: those are not submitted any more.
 */
const lateSubmissions = ({ facts, history, receipts }: Evidence, operations: ReadonlyMap<string, Operation>) => {
  const toMonotonic = facts.clock.monotonic - facts.clock.wall
  const received = new Map<string, number>(receipts.map(({ at, key }) => [key, at + toMonotonic]))
  const end = history.reduce((latest, { to }) => Math.max(latest, to), 0)
  const starts = facts.faults.map(({ from, healed, leavesMajority }) => leavesMajority ? from : healed)
  const dueAfter = (acknowledgedAt: number) => {
    let due = acknowledgedAt + resumesWithin * 1000
    for (const start of starts) if (start < due) due = Math.max(due, start + resumesWithin * 1000)
    return due
  }
  return [...operations.values()].flatMap(({ id, last, sightings }) => {
    const acknowledged = sightings.find(({ kind }) => kind === "accept")
    if (acknowledged === undefined) return []
    const due = dueAfter(acknowledged.to)
    const at = received.get(id)
    if (at !== undefined) {
      return at <= due
        ? []
        : [`${id}: received ${seconds(at - acknowledged.to)} after its acceptance`]
    }
    return last?.told?.state === "accepted" && due < end
      ? [`${id}: accepted at ${seconds(acknowledged.to)}, never sent`]
      : []
  })
}

/** Every figure that decides about a run, by its rule. */
export const judge = (evidence: Evidence) => {
  const operations = new Map(operationsOf(evidence.history).map((operation) => [operation.id, operation]))
  const each = (rule: (operation: Operation) => string | null) =>
    [...operations.values()].flatMap((operation) => rule(operation) ?? [])
  return {
    doubles: counted("double submissions, by the provider's record", doubleSubmissions(evidence.receipts)),
    doubleSends: counted("double sends, by the wire", doubleSends(Object.entries(evidence.facts.sent))),
    // No client knows the operation, although each request was repeated until it was answered.
    orphans: counted(
      "submissions that no client was told of",
      unknownSubmissions(evidence.receipts, new Set(operations.keys()))
    ),
    lost: counted("acknowledged acceptances lost", lostAcceptances(evidence, operations)),
    open: counted("acceptances without an answer, or not read, at the end", openKeys(evidence, operations)),
    unsaid: counted("states unsaid", each(unsaidState)),
    unsent: counted("operations told as sent that the provider never received", neverReceived(evidence, operations)),
    back: counted("revisions going back for sequential reads", each(goesBack)),
    revoked: counted("reads that succeed after an acknowledged revocation", readsOfRevoked(evidence)),
    refused: counted("reads refused although the grant was acknowledged", refusedReads(evidence)),
    late: counted(
      `operations not submitted within ${resumesWithin} s`,
      evidence.facts.resumes ? lateSubmissions(evidence, operations) : []
    ),
    invalid: counted("answers outside of the contract", outsideOfContract(evidence)),
    overspent: counted("budgets of grants exceeded", overspent(evidence, operations)),
    deaths: counted("processes that ended by themselves", evidence.facts.deaths)
  } satisfies Figures
}
export type FigureName = keyof ReturnType<typeof judge>
