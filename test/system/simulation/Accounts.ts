/** The accounts of a run: owners who grant, revoke and reconnect; clients who send requests; and an operator. */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type {
  ClientId,
  GrantId,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  ResourceOwner
} from "../../../src/domain/Grant.ts"
import type { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import { isFree, isUnsent } from "../../../src/services/memory/recordRules.ts"
import { describeUsage, detailsOf, type Limits, toText } from "./Budgets.ts"
import type { Chance } from "./Chance.ts"
import { epoch } from "./MachineClock.ts"
import type { Simulation } from "./Simulation.ts"

interface Account {
  readonly number: number
  readonly provider: ProviderName
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  /** Of each of its grants; null for none. */
  readonly limits: Limits | null
  grant_id: GrantId
  /** When consent ended, in true time; null while the grant stands. */
  consentEndedAt: number | null
}

export class Accounts {
  readonly #simulation: Simulation
  readonly #amounts: Chance
  readonly #accounts: Array<Account> = []
  #grants = 0

  /** `amounts` decides about limits and amounts alone. */
  constructor(simulation: Simulation, amounts: Chance) {
    this.#simulation = simulation
    this.#amounts = amounts
  }

  /** Issues a grant for each account, and sends requests over the first part of the run. */
  open(): void {
    const { scenario, world } = this.#simulation
    for (let number = 0; number < scenario.accounts; number++) {
      for (const { traits } of this.#simulation.providers) this.#open(number, traits.name as ProviderName)
    }
    for (let number = 0; number < scenario.operations; number++) {
      world.after(world.chance.skewed(0, scenario.calmAt), () => this.#accept(number))
    }
  }

  #open(number: number, provider: ProviderName): void {
    const { memory } = this.#simulation.database
    const account: Account = {
      number,
      provider,
      client_id: `client-${number}` as ClientId,
      subject: `subject-${number}` as PairwiseSubject,
      resource_owner: `owner-${number}` as ResourceOwner,
      provider_connection_id: `binding-${number}-${provider}` as ProviderConnectionId,
      limits: this.#drawLimits(),
      grant_id: "" as GrantId,
      consentEndedAt: null
    }
    memory.clients.set(account.client_id, true)
    this.#connect(account, true)
    this.#grant(account)
    this.#accounts.push(account)
  }

  #drawLimits(): Limits | null {
    const chance = this.#amounts
    if (!chance.happens(this.#simulation.scenario.limitedGrants)) return null
    return {
      most: chance.between(5, 10),
      budget: chance.between(8, 25),
      window: chance.pick(["grant", "calendar day", "rolling day"])
    }
  }

  #connect({ provider, provider_connection_id, resource_owner }: Account, connected: boolean): void {
    const { memory } = this.#simulation.database
    memory.connections.set(provider_connection_id, { id: provider_connection_id, resource_owner, provider, connected })
  }

  #grant(account: Account): void {
    const { client_id, limits, provider_connection_id, resource_owner, subject } = account
    account.grant_id = `grant-${++this.#grants}` as GrantId
    if (limits !== null) this.#simulation.budgets.limits.set(account.grant_id, limits)
    this.#simulation.database.memory.grants.set(account.grant_id, {
      grant_id: account.grant_id,
      resource_owner,
      subject,
      client_id,
      provider_connection_id,
      scopes: [],
      created_at: DateTime.makeUnsafe(epoch),
      expires_at: DateTime.makeUnsafe(epoch * 2),
      revoked_at: null,
      ...limits === null ? {} : { authorization_details: detailsOf(limits) }
    })
  }

  /** Sends a request, and repeats it if the answer is lost. A request within the limits of a good grant is accepted. */
  #accept(number: number): void {
    const { budgets, database, judge, ledger, world } = this.#simulation
    const account = world.chance.pick(this.#accounts)
    const { client_id, grant_id, provider, subject } = account
    const euros = this.#amounts.between(1, 10)
    const key = `key-${number}` as IdempotencyKey
    budgets.amounts.set(key, euros)
    const terms = { amount: toText(euros), currency: "EUR", payee: "payee" }
    const request = { type: "payment", key, payload: { amount: terms.amount }, terms }
    const usage = budgets.usage(grant_id, database.clock.currentTimeMillisUnsafe(), database.operations)
    const fits = usage === null || euros <= Math.min(usage.most, usage.budget - usage.kept)
    const isDue = fits && this.#isGood(account)
    const accepted = database.now(ledger.accept({ grant_id, client_id, subject }, request))
    if (Exit.isFailure(accepted)) {
      const refusal = Option.getOrNull(Cause.findErrorOption(accepted.cause))
      world.trace.note(refusal?._tag === "LimitExceeded" ? "limit_exceeded" : "request refused", number)
      if (!isDue) return
      const detail = usage === null ? "no limits" : describeUsage(usage)
      return judge.violate("a request within the limits is accepted", `${key} of ${euros} under ${grant_id}: ${detail}`)
    }
    this.#simulation.announce(provider)
    if (world.chance.happens(0.1)) {
      const again = database.now(ledger.accept({ grant_id, client_id, subject }, request))
      if (Exit.isFailure(again) || again.value.operation.id !== accepted.value.operation.id) {
        judge.violate("a request binding returns its operation", `request ${number}`)
      }
    }
  }

  /** Ends or restores the standing of one account. */
  changeStanding(): void {
    const { database: { memory }, world } = this.#simulation
    const account = world.chance.pick(this.#accounts)
    if (this.#isGood(account)) this.#revoke(account)
    else this.#restore(account)
    this.#noteStanding()
    world.trace.note(this.#isGood(account) ? "standing restored" : "standing lost", account.client_id)
    if (memory.grants.size === 0) throw new Error("an account lost its grants")
  }

  #isGood({ client_id, grant_id, provider_connection_id }: Account): boolean {
    const { clients, connections, grants } = this.#simulation.database.memory
    return clients.get(client_id) === true && connections.get(provider_connection_id)!.connected
      && grants.get(grant_id)!.revoked_at === null
  }

  #revoke(account: Account): void {
    const { chance } = this.#simulation.world
    const { clients, grants } = this.#simulation.database.memory
    const way = chance.below(3)
    if (way === 0) clients.set(account.client_id, false)
    else if (way === 1) this.#connect(account, false)
    else {
      grants.set(account.grant_id, { ...grants.get(account.grant_id)!, revoked_at: DateTime.makeUnsafe(epoch) })
    }
  }

  #restore(account: Account): void {
    this.#simulation.database.memory.clients.set(account.client_id, true)
    this.#connect(account, true)
    if (!this.#isGood(account)) this.#grant(account)
  }

  /** At the end of the run, restores most accounts and leaves some without standing. */
  settleStanding(): void {
    const { chance } = this.#simulation.world
    for (const account of this.#accounts) {
      if (!this.#isGood(account) && chance.happens(0.7)) this.#restore(account)
    }
    this.#noteStanding()
  }

  /** Accounts share clients: one change may affect several accounts. */
  #noteStanding(): void {
    for (const account of this.#accounts) {
      account.consentEndedAt = this.#isGood(account) ? null : account.consentEndedAt ?? this.#simulation.world.now
    }
  }

  /** When consent for an operation ended, in true time; null while it stands. */
  consentEndedAt({ owner }: MemoryRecord): number | null {
    return this.#accountOf(owner).consentEndedAt
  }

  #accountOf(owner: MemoryRecord["owner"]): Account {
    return this.#accounts.find(({ client_id, provider }) =>
      client_id === owner.client_id && provider === owner.provider
    )!
  }

  /**
   * Whether no part will move an operation any more: it is settled, or waits for an owner without standing, or
   * for a provider that will never answer.
   */
  isAtItsEnd(record: MemoryRecord): boolean {
    const { operation: { id, state, terminal }, owner } = record
    if (terminal) return true
    const isGood = this.#isGood(this.#accountOf(owner))
    // A held claim comes to an end without its owner. A returned claim waits for its owner, as an accepted operation does.
    if (state === "submitting") return record.return_reason !== null && !isGood
    const { database } = this.#simulation
    // Only the operator decides about a hold of an operation that was never sent.
    if (!isGood || record.hold_placed && isUnsent(record, database.memory)) return true
    const provider = this.#simulation.providerOf(owner.provider)
    const isFindable = provider.isFindable(id)
    if (isFindable) return state === "submitted" && provider.truthOf(id).outcome === "pending"
    if (this.#simulation.judge.wasSent(id)) return true
    if (isFree(record, database.memory.cluster.timeline)) return false
    // Only a person or the witness releases a held operation.
    if (state === "accepted") return true
    const { fences, window } = provider.traits
    return window === null && !(fences && state === "indeterminate" && record.send_before !== null)
  }

  /** An operation, preferably one that waits to be claimed: an operator can do most with those. */
  pickOperation(): MemoryRecord | undefined {
    const { chance } = this.#simulation.world
    const all = [...this.#simulation.database.operations.values()]
    const accepted = all.filter(({ operation }) => operation.state === "accepted")
    const records = accepted.length > 0 && chance.happens(0.7) ? accepted : all
    return records.length === 0 ? undefined : chance.pick(records)
  }

  /** The name of an operation in traces. */
  nameOf(id: OperationId): string {
    return this.#simulation.judge.name(id)
  }
}
