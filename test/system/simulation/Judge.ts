/**
 * The invariants of a run. The judge sees every commit, every byte that leaves and every request that arrives, and it
 * has the true state of the provider.
 */
import * as Duration from "effect/Duration"
import { longestSkew } from "../../../src/domain/ClockSkew.ts"
import {
  canTransition,
  isEvidence,
  isTerminal,
  type OperationId,
  type OperationState
} from "../../../src/domain/Operation.ts"
import type { OutcomeRecord } from "../../../src/domain/Submission.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import { lostTakeOver, restartEvidence, rollbackEvidence } from "../../../src/services/rules/ledgerRules.ts"
import { type Budgets, describeUsage } from "./Budgets.ts"
import type { Traits } from "./ProviderTraits.ts"
import type { World } from "./World.ts"

/** A rule that was broken. */
export interface Violation {
  readonly rule: string
  readonly detail: string
}

/** The final result of an operation at its provider. */
export interface Truth {
  /** Null if the provider has not received the operation. */
  readonly outcome: "succeeded" | "failed" | "pending" | null
  /** Whether the provider has decided already. */
  readonly isSettled: boolean
}

interface Facts {
  readonly number: number
  /** How often the provider has received it. */
  receipts: number
  claims: number
  /** When it was claimed or taken over last, in true time. */
  claimedAt: number
  /** The failure codes that its attempts justify. */
  readonly justified: Set<string>
}

/** Failures that need an attempt with this end. A local failure justifies none. */
const unsentCodes = ["provider_unreachable", "provider_unavailable"]

/** Milliseconds: by how much clocks of other speeds drift apart between a claim and its last attempt. */
const mostDrift = 250

/** Operations whose consent ended long ago are examined at least every five minutes, in milliseconds. */
export const longestIdle = 300_000

export interface JudgeOptions {
  readonly world: World
  readonly truthOf: (record: MemoryRecord) => Truth
  readonly databaseTime: () => number
  readonly budgets: Budgets
  /** Whether the provider has received the operation, or may still receive it. */
  readonly mayHaveBeenSent: (record: MemoryRecord) => boolean
  /** Called after each claim. If the operation was claimed before, the database had lost the earlier claim. */
  readonly claimed: (isAgain: boolean) => void
  /** The longest delay that a schedule may give an operation, in milliseconds. */
  readonly longestDelay: number
  /** The longest time after its claim in which a running process may send, in milliseconds. */
  readonly longestSend: number
  /** When consent for an operation ended, in true time; null while it stands. */
  readonly consentEndedAt: (record: MemoryRecord) => number | null
  /** The longest time after the end of consent in which an attempt may start, in milliseconds. */
  readonly longestIgnorance: number
}

/** Claims of a worker that started again have no holder. After a rollback all claims end, because others may have taken them over. */
const unwaiting: ReadonlyArray<unknown> = [restartEvidence.reason, rollbackEvidence.reason]

/** A rescue of a stale claim. */
const isRescue = (evidence: unknown): boolean =>
  typeof evidence === "object" && evidence !== null && "by" in evidence && evidence.by === "rescuer"
  && !("reason" in evidence && unwaiting.includes(evidence.reason))

export class Judge {
  violation: Violation | null = null
  /** A server that was replaced goes on. Then a worker may return its claim of an operation that another history sent. */
  hasTwoHistories = false
  /** When a clock was last set, in true time. */
  clocksSetAt = -Infinity
  /** Requests that arrived at providers with a limit. */
  arrivals = 0
  /** The last arrivals at each provider with a limit, in true time. */
  readonly #arrivals = new Map<string, Array<number>>()
  readonly #facts = new Map<OperationId, Facts>()
  readonly #options: JudgeOptions

  constructor(options: JudgeOptions) {
    this.#options = options
  }

  violate(rule: string, detail: string): void {
    this.#options.world.trace.note("VIOLATION", null, `${rule}: ${detail}`)
    this.violation ??= { rule, detail }
  }

  #factsOf(id: OperationId): Facts {
    const known = this.#facts.get(id)
    if (known !== undefined) return known
    const facts = {
      number: this.#facts.size + 1,
      receipts: 0,
      claims: 0,
      claimedAt: -Infinity,
      justified: new Set<string>()
    }
    this.#facts.set(id, facts)
    return facts
  }

  /** The short name of an operation in traces. */
  name(id: OperationId): string {
    return `op${this.#factsOf(id).number}`
  }

  wasSent(id: OperationId): boolean {
    return this.#factsOf(id).receipts > 0
  }

  committed(before: MemoryRecord | undefined, after: MemoryRecord): void {
    const { operation: { id, state, terminal } } = after
    const name = this.name(id)
    if (before?.operation.terminal === true) {
      return this.violate("a terminal operation never changes", `${name} was ${before.operation.state}`)
    }
    this.#checkHistory(name, before, after)
    if (before?.operation.state === "accepted" && state === "submitting") {
      const facts = this.#factsOf(id)
      this.#options.claimed(++facts.claims > 1)
      facts.claimedAt = this.#options.world.now
    }
    if (before?.operation.state === "submitting" && state === "submitting") this.#checkReturn(name, before, after)
    if (terminal !== isTerminal(state) || (after.due_at === null) !== terminal) {
      this.violate("every operation that is not settled is scheduled", `${name} is ${state}`)
    }
    this.#checkSchedule(name, before, after)
    const code = after.operation.failure?.code ?? ""
    if (unsentCodes.includes(code) && !this.#factsOf(id).justified.has(code)) {
      this.violate("no local failure ends an operation", `${name} failed with ${code}`)
    }
    if (terminal) this.#checkTruth(name, after)
  }

  /** A commit on a server that was replaced. Only what leaves its workers counts. */
  committedElsewhere(before: MemoryRecord | undefined, after: MemoryRecord): void {
    if (before === undefined || after.operation.state !== "submitting") return
    const facts = this.#factsOf(after.operation.id)
    if (before.operation.state === "accepted") facts.claims++
    facts.claimedAt = this.#options.world.now
  }

  /** After each change of a ledger, also by a failover, for the grant of an operation. */
  checkLimits(
    { key, operation: { created_at, id }, owner: { grant_id } }: MemoryRecord,
    operations: ReadonlyMap<OperationId, MemoryRecord>
  ): void {
    const { budgets } = this.#options
    const usage = budgets.usage(grant_id, created_at.epochMilliseconds, operations)
    const euros = budgets.amounts.get(key)!
    if (usage === null || usage.kept <= usage.budget && euros <= usage.most) return
    this.violate(
      "operations keep no more than the limits of their grant",
      `${this.name(id)} of ${euros} under ${grant_id}: ${describeUsage(usage)}`
    )
  }

  /** A claim stays a claim: it may be returned, and then be taken over. */
  #checkReturn(name: string, before: MemoryRecord, after: MemoryRecord): void {
    const { id } = after.operation
    const wasReturned = before.return_reason !== null
    const isReturn = !wasReturned && after.return_reason !== null
    if (isReturn && !this.hasTwoHistories && this.#options.mayHaveBeenSent(after)) {
      this.violate("only a claim that was not sent is returned", name)
    }
    const isTakenOver = before.send_before?.epochMilliseconds !== after.send_before?.epochMilliseconds
    if (!isTakenOver) return
    this.#options.world.trace.note("claim taken over", name)
    if (!wasReturned) this.violate("only a returned claim is taken over", name)
    this.#factsOf(id).claimedAt = this.#options.world.now
  }

  /** The database told a process that an outcome of a batch is recorded. */
  acknowledged({ id, outcome, revision }: OutcomeRecord, stored: MemoryRecord | undefined): void {
    const entry = stored?.history.find((entry) => entry.revision === revision + 1)
    if (entry?.to === outcome.state) return
    this.violate("an outcome that counts as recorded is in the ledger", `${this.name(id)}, ${outcome.state}`)
  }

  /** An attempt ended, and proved that the provider did nothing. It justifies this failure. */
  notSent(id: OperationId, code: string): void {
    this.#factsOf(id).justified.add(code)
  }

  #checkHistory(name: string, before: MemoryRecord | undefined, after: MemoryRecord): void {
    let state: OperationState | null = before?.operation.state ?? null
    let revision = before?.operation.revision ?? 0
    for (const entry of after.history.slice(before?.history.length ?? 0)) {
      const { evidence, from, to } = entry
      this.#options.world.trace.note(`${from ?? "nothing"} → ${to}`, name)
      if (from !== state || entry.revision !== ++revision) {
        this.violate("the history has no gaps", `${name}: ${state} and then ${from} → ${to}`)
      }
      if (from !== null && !canTransition(from, to)) {
        this.violate("only transitions of the table are made", `${name}: ${from} → ${to}`)
      }
      if (from === "indeterminate" && !isEvidence(evidence as never)) {
        this.violate("an operation leaves indeterminate only with evidence", name)
      }
      const isHeldClaim = before !== undefined && before.return_reason === null
      const sendBefore = before?.send_before?.epochMilliseconds ?? 0
      if (isHeldClaim && isRescue(evidence) && this.#options.databaseTime() < sendBefore) {
        this.violate("no claim is rescued while its holder may still send", name)
      }
      state = to
    }
    if (state !== after.operation.state || revision !== after.operation.revision) {
      this.violate("every change of the state is in the history", `${name}: ${state}, ${after.operation.state}`)
    }
  }

  #checkSchedule(
    name: string,
    before: MemoryRecord | undefined,
    { due_at, operation, send_before }: MemoryRecord
  ): void {
    // A released operation waits for processes that may still send it, also if the clock was set back meanwhile.
    if (due_at === null || due_at === before?.due_at || due_at === before?.send_before?.epochMilliseconds) return
    const now = this.#options.databaseTime()
    const idle = Math.min(longestIdle, (now - operation.updated_at.epochMilliseconds) / 10)
    const delay = due_at - now
    // After a rollback the rescuer waits until no take-over that was lost can be sent: see `lostTakeOverTime`.
    const sendable = (send_before?.epochMilliseconds ?? 0) - operation.updated_at.epochMilliseconds
    const rescue = operation.state === "submitting" ? Math.max(lostTakeOver, sendable) : 0
    if (delay > Math.max(this.#options.longestDelay, idle + 1, rescue)) {
      this.violate("no operation is delayed beyond the longest delay", `${name}, by ${delay} ms`)
    }
  }

  #checkTruth(name: string, after: MemoryRecord): void {
    const { state } = after.operation
    const { isSettled, outcome } = this.#options.truthOf(after)
    const agrees = state === "succeeded"
      ? outcome === "succeeded" && isSettled
      : state === "failed"
      ? outcome === null || (outcome === "failed" && isSettled)
      : !this.wasSent(after.operation.id)
    if (!agrees) {
      this.violate(
        "a settled operation agrees with the provider's record",
        `${name} is ${state}; the provider: ${outcome}${isSettled ? "" : ", not yet"}`
      )
    }
  }

  /** A process starts an attempt: its bytes may leave from now on. */
  attempted(id: OperationId, record: MemoryRecord | undefined, wasStoppedSince: (instant: number) => boolean): void {
    const consentEndedAt = record === undefined ? null : this.#options.consentEndedAt(record)
    if (consentEndedAt === null || wasStoppedSince(consentEndedAt)) return
    const since = this.#options.world.now - consentEndedAt
    if (since > this.#options.longestIgnorance) {
      this.violate("no attempt starts after consent was revoked", `${this.name(id)}, ${since} ms after that`)
    }
  }

  /** A process starts an attempt while its clock shows `shown`. Clocks that were set since its claim do not count. */
  compareClocks(id: OperationId, shown: number): void {
    const skew = shown - this.#options.databaseTime()
    if (Math.abs(skew) <= longestSkew + mostDrift || this.clocksSetAt >= this.#factsOf(id).claimedAt) return
    this.violate("nothing is sent by a wrong clock", `${this.name(id)}, ${skew} ms ahead of the database`)
  }

  /** The first byte leaves a process. */
  departed(id: OperationId, wasStoppedSince: (instant: number) => boolean): void {
    const { claimedAt, claims } = this.#factsOf(id)
    const name = this.name(id)
    if (claims === 0) return this.violate("nothing is sent before the claim is committed", name)
    const age = this.#options.world.now - claimedAt
    if (age > this.#options.longestSend && !wasStoppedSince(claimedAt)) {
      this.violate("nothing is sent after the claim may be stale", `${name}, ${age} ms after its claim`)
    }
  }

  /** A submission or a status read arrives at a provider. */
  arrived({ isCounted, limit, name: provider }: Traits): void {
    if (limit === undefined || isCounted !== true) return
    const { now } = this.#options.world
    const arrivals = this.#arrivals.get(provider) ?? []
    this.#arrivals.set(provider, arrivals)
    arrivals.push(now)
    const interval = Duration.toMillis(Duration.fromInputUnsafe(limit.interval))
    const inWindow = arrivals.filter((at) => at >= now - interval).length
    if (inWindow > limit.requests) {
      this.violate(
        "no more requests arrive in any interval than the limit of the provider",
        `${inWindow} at ${provider}`
      )
    }
    arrivals.splice(0, arrivals.length - limit.requests)
    this.arrivals++
  }

  /** The provider receives a submission. */
  received(id: OperationId, record: MemoryRecord | undefined): void {
    const facts = this.#factsOf(id)
    const name = this.name(id)
    if (++facts.receipts > 1) this.violate("at most one send of an operation is received", name)
    const state = record?.operation.state
    if (state === "failed" || state === "cancelled") {
      this.violate("nothing is sent after an operation is settled", `${name} is ${state}`)
    }
  }
}
