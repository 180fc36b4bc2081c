/** A round: the calls of clients, workers and readers on a ledger, one after another, and what each costs. */
import { Duration, Effect } from "effect"
import type { AuthorizationDetails } from "../../src/domain/AuthorizationDetails.ts"
import { type GrantIdentity, ProviderName } from "../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import { OperationType } from "../../src/domain/Operation.ts"
import type { OperationQuery } from "../../src/domain/OperationQuery.ts"
import type { Claim, ClaimTerms, DueRead, ReadTerms, ReviewTerms } from "../../src/domain/Submission.ts"
import { type GrowthLedger, provider as providerName } from "./ledger.ts"
import { type Cost, makeMeter } from "./meter.ts"

/** What is measured, and what it is. */
export const kindsOf = {
  accept: "accept an operation",
  acceptLimited: "accept with limits",
  claim: "claim ten operations",
  record: "record an outcome",
  takeReads: "take ten status reads",
  rescue: "rescue, nothing stale",
  claimReturned: "claim returned, none there",
  takeHeld: "take held, none there",
  reviewAged: "review aged, none there",
  figures: "figures about the ledger",
  read: "read one operation",
  list: "list, first page of 20",
  listFiltered: "list by state and type",
  findByKey: "find by key"
} as const

export type Kind = keyof typeof kindsOf
export type RoundCosts = Readonly<Record<Kind, Cost>>

const provider = ProviderName.make(providerName)

const claimTerms: ClaimTerms = {
  send_within: Duration.seconds(30),
  rescue_after: Duration.seconds(90),
  idle: Duration.seconds(30),
  review_after: Duration.hours(1),
  worker: null
}

const readTerms: ReadTerms = {
  lease: Duration.seconds(30),
  rescue_after: Duration.seconds(90),
  idle: Duration.seconds(30),
  review_submitted_after: Duration.days(3),
  review_indeterminate_after: Duration.minutes(15)
}

/** Nothing is that old. */
const reviewTerms: ReviewTerms = {
  accepted: Duration.days(365),
  submitted: Duration.days(365),
  indeterminate: Duration.days(365)
}

const recording = { due_in: Duration.zero, reference: null, evidence: { by: "bench" }, send_before: null }

const firstPage: OperationQuery = {
  states: [],
  type: null,
  created_after: null,
  created_before: null,
  key: null,
  page_size: 20,
  after: null
}
const filtered: OperationQuery = { ...firstPage, states: ["succeeded"], type: OperationType.make("payment") }

/** The credential of `acceptLimited` has them, so that its grants are those of `accept`. */
const limits: AuthorizationDetails = [{
  type: "financial_operations",
  max_amount: [{ currency: "EUR", amount: "100.00" }],
  budgets: [{ currency: "EUR", amount: "1000000.00", per: "day", time_zone: "Europe/Berlin" }]
}]

/** Operations that a worker claims or reads at once. */
const atOnce = 10
/** Calls of a kind that finds nothing. */
const idleCalls = 100

let accepted = 0
let drawn = 0

/** The next ones of a list that is in random order. */
const next = <A>(from: ReadonlyArray<A>, count: number): ReadonlyArray<A> =>
  Array.from({ length: count }, () => from[drawn++ % from.length]!)

const repeat = <A, E>(count: number, call: Effect.Effect<A, E>) =>
  Effect.forEach(Array.from({ length: count }), () => call)

/** Dies if a call did not find what the round had prepared: its cost would be that of another call. */
const expectCount = (what: string, found: number, expected: number) =>
  found === expected ? Effect.void : Effect.die(new Error(`${what}: ${found} operations instead of ${expected}`))

/** Measures each kind once. `count` operations are accepted, and as many with limits. All are claimed, read and settled. */
export const measureRound = Effect.fnUntraced(function*(at: GrowthLedger, count: number) {
  const { claims, figures, grants, ledger, outcomes, rescues, samples, statusReads, store } = at
  const write = yield* makeMeter(at.sql)
  const read = yield* makeMeter(at.reader)
  const all = 2 * count
  const groups = Math.ceil(all / atOnce)

  const acceptFor = (grant: GrantIdentity) =>
    ledger.accept(grant, {
      type: OperationType.make("payment"),
      key: IdempotencyKey.make(`${crypto.randomUUID()}-${accepted++}`),
      payload: { amount: "18.50", currency: "EUR" },
      terms: { amount: "18.50", currency: "EUR", payee: "Landlord" }
    })
  const accept = yield* write(count, Effect.forEach(next(grants, count), acceptFor, { discard: true }))
  const acceptLimited = yield* write(
    count,
    Effect.forEach(next(grants, count), (grant) => acceptFor({ ...grant, authorization_details: limits }), {
      discard: true
    })
  )
  const claim = yield* write(groups, repeat(groups, claims.claim(provider, atOnce, claimTerms)))
  const claimed: ReadonlyArray<Claim> = claim.result.flat()
  yield* expectCount("claim", claimed.length, all)
  const submitted = yield* write(
    all,
    Effect.forEach(
      claimed,
      ({ operation: { id }, revision }) => outcomes.record(id, revision, { state: "submitted" }, recording),
      { discard: true }
    )
  )
  const takeReads = yield* write(groups, repeat(groups, statusReads.takeReads(provider, atOnce, readTerms)))
  const reads: ReadonlyArray<DueRead> = takeReads.result.flat()
  yield* expectCount("takeReads", reads.length, all)
  const succeeded = yield* write(
    all,
    Effect.forEach(
      reads,
      ({ operation: { id }, revision }) => outcomes.record(id, revision, { state: "succeeded" }, recording),
      { discard: true }
    )
  )
  const idle = Effect.fnUntraced(function*<A, E>(call: Effect.Effect<A, E>) {
    return (yield* write(idleCalls, repeat(idleCalls, call))).cost
  })
  const seeded = next(samples, count)
  // As a worker does every five seconds. Otherwise the figures would read a row for each move of the rounds.
  yield* at.sql.unsafe("SELECT fold_operation_counts('0')")
  const costs: RoundCosts = {
    accept: accept.cost,
    acceptLimited: acceptLimited.cost,
    claim: claim.cost,
    record: {
      cpu: (submitted.cost.cpu + succeeded.cost.cpu) / 2,
      hits: (submitted.cost.hits + succeeded.cost.hits) / 2,
      misses: (submitted.cost.misses + succeeded.cost.misses) / 2,
      wal: (submitted.cost.wal + succeeded.cost.wal) / 2
    },
    takeReads: takeReads.cost,
    rescue: yield* idle(rescues.rescue(100)),
    claimReturned: yield* idle(claims.claimReturned(provider, atOnce, claimTerms)),
    takeHeld: yield* idle(statusReads.takeHeld(provider, atOnce, readTerms)),
    reviewAged: yield* idle(rescues.reviewAged(100, reviewTerms)),
    figures: yield* idle(figures.now),
    read: (yield* read(count, Effect.forEach(seeded, (one) => store.find(one, one.id), { discard: true }))).cost,
    list: (yield* read(count, Effect.forEach(seeded, (one) => store.list(one, firstPage), { discard: true }))).cost,
    listFiltered: (yield* read(
      count,
      Effect.forEach(seeded, (one) => store.list(one, filtered), { discard: true })
    )).cost,
    findByKey: (yield* read(
      count,
      Effect.forEach(
        seeded,
        (one) =>
          Effect.flatMap(
            store.list(one, { ...firstPage, key: one.key }),
            ({ operations }) => expectCount("find by key", operations.length, 1)
          ),
        { discard: true }
      )
    )).cost
  }
  return costs
})
