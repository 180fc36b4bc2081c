/**
 * The clients of the ledger. They repeat each request under its key until an answer arrives, repeat some answered
 * requests, and cancel some operations.
 */
import { Duration, Effect, Schedule, type Schema } from "effect"
import {
  ClientId,
  type GrantIdentity,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "../../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import type { Instruction } from "../../../../src/sandbox/SandboxOutcome.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { banks, type Order } from "./Banks.ts"
import { slowness } from "./Clock.ts"
import type { Dice } from "./Dice.ts"
import { type Provider, windowOf } from "./Plan.ts"
import { drawTerms, limits } from "./Spending.ts"

/** The answers of the ledger to all repetitions of one request. */
export interface Acceptance {
  readonly key: string
  /** Distinct ids of the answers: more than one would be two operations for one key. */
  readonly ids: ReadonlySet<string>
  /** Answers that report the request as the one that created the operation. */
  readonly created: number
  /** The limits of the grant refused the request. */
  readonly refused?: true
}

/** Clients whose grants have limits: they ask for more than these. */
export interface Spenders {
  readonly owners: number
  /** At once. */
  readonly callers: number
}

const usual: Spenders = { owners: 4, callers: 16 }

/** Milliseconds that a client waits for an answer. Very many callers wait for each other. */
const patienceOf = (spenders: Spenders | null) => (spenders === null ? 1500 : 15_000) * slowness

/** The owner that a client acts for, and the provider. */
export interface ClientGrant {
  readonly identity: GrantIdentity
  readonly provider: Provider
}

/** One grant for each owner and provider. */
export const issueGrants = Effect.fnUntraced(function*(providers: ReadonlyArray<Provider>, spenders: Spenders | null) {
  const grants = yield* Grants
  const owners = Array.from({ length: (spenders ?? usual).owners }, (_, index) => `owner-${index}`)
  return yield* Effect.forEach(
    owners.flatMap((owner) => providers.map((provider) => ({ owner, provider }))),
    ({ owner, provider }) =>
      Effect.map(
        grants.issue({
          resource_owner: ResourceOwner.make(owner),
          subject: PairwiseSubject.make(`subject-of-${owner}`),
          client_id: ClientId.make("agent"),
          provider: ProviderName.make(provider),
          scopes: [operationsRead],
          expires_in: Duration.hours(24),
          ...spenders !== null && { authorization_details: limits }
        }),
        ({ grant: { client_id, grant_id, subject } }): ClientGrant => ({
          provider,
          identity: { grant_id, client_id, subject }
        })
      )
  )
})

/**
 * A few stay pending for ever, so that some operations stay unsettled. A flapping status is "not found" at any
 * time, which contradicts the documentation of a provider with a window.
 */
const instruct = (dice: Dice, provider: Provider): Instruction => ({
  ...dice.roll() < 0.002 && { outcome: "pending" },
  ...windowOf(provider) !== null && { faults: { flapping_status: false } }
})

/** A payment at the sandbox. */
const payment = (dice: Dice, provider: Provider): Schema.Json => ({
  amount: `${dice.below(10_000)}.00`,
  sandbox: instruct(dice, provider)
})

const typeOf = (provider: Provider): string =>
  provider === "careful" || provider === "windowed" ? "payment" : banks[provider].type

export interface AcceptingOptions {
  readonly grants: ReadonlyArray<ClientGrant>
  readonly dice: Dice
  /** Milliseconds from the request with this number, from 0, to the next; null if there is no such request. */
  readonly pause: (index: number) => number | null
  /** True: no further request is sent now. By default the workers' pace does not matter. */
  readonly isFull?: () => boolean
  readonly acceptances: Array<Acceptance>
  /** What a bank carries out. Null: payments at the sandbox. */
  readonly order: Order | null
  /** The grants have limits, so the requests have terms. */
  readonly spenders?: Spenders | null
}

/** Sends all requests. Late ones follow at once. */
export const acceptAll = Effect.fnUntraced(function*(options: AcceptingOptions) {
  const { acceptances, dice, grants, isFull = () => false, order, pause, spenders = null } = options
  const ledger = yield* OperationLedger
  const patience = patienceOf(spenders)
  let next = 0
  let due = Date.now()

  const acceptOnce = Effect.fnUntraced(function*(index: number) {
    const key = `request-${index}`
    const ids = new Set<string>()
    let created = 0
    const { identity, provider } = grants[dice.below(grants.length)]!
    const payload = order === null ? payment(dice, provider) : yield* order(dice, key)
    const request = {
      type: typeOf(provider),
      payload,
      key: IdempotencyKey.make(key),
      ...spenders !== null && { terms: drawTerms(dice) }
    }
    const ask = ledger.accept(identity, request).pipe(
      Effect.timeout(patience),
      // It is unknown whether the request was recorded.
      Effect.retry({ while: retryable, schedule: Schedule.spaced("100 millis") }),
      Effect.tap((accepted) =>
        Effect.sync(() => {
          ids.add(accepted.operation.id)
          if (accepted.created) created++
        })
      )
    )
    const accepted = yield* Effect.catchTag(ask, "LimitExceeded", () => Effect.succeed(null))
    if (accepted === null) return void acceptances.push({ key, ids, created, refused: true })
    const { operation } = accepted
    if (dice.roll() < 0.05) yield* ask
    acceptances.push({ key, ids, created })
    if (dice.roll() < 0.01) {
      yield* Effect.ignore(Effect.timeout(ledger.cancel(operation.id, { by: "client" }), patience))
    }
  })

  const client = Effect.gen(function*() {
    while (true) {
      const index = next
      const after = pause(index)
      if (after === null) return
      const at = due
      next++
      due += after
      yield* Effect.sleep(Math.max(0, at - Date.now()))
      while (isFull()) yield* Effect.sleep("50 millis")
      yield* acceptOnce(index)
    }
  })
  const callers = Array.from({ length: (spenders ?? usual).callers }, () => client)
  yield* Effect.all(callers, { concurrency: "unbounded", discard: true })
})

const retryable = (error: { readonly _tag: string }): boolean =>
  error._tag === "StoreUnavailable" || error._tag === "TimeoutError"
