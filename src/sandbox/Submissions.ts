/**
 * Receives submissions and answers status reads: the sandbox without its sockets.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"
import { type Answer, badGateway, jsonAnswer, problemAnswer } from "./Answer.ts"
import { type Entries, type Entry, entryOf, type Fate, restore } from "./Entries.ts"
import {
  type FaultName,
  type FaultSettings,
  type KeyedFault,
  type Occasion,
  type Spoiler,
  spoilers,
  type Strike,
  strikes
} from "./Faults.ts"
import type { SandboxAnswer, SandboxStatus, SubmissionKey } from "./Protocol.ts"
import { parseSubmission, type ReceivedRequest, type Submission } from "./ReceivedRequest.ts"
import { type ReceiptOutcome, RecordFailed, type SubmissionRecord } from "./Record.ts"
import { foreignStatus, type OutcomeMix, settle, statusAt, succeedsAtOnce } from "./SandboxOutcome.ts"
import type { Webhooks } from "./Webhooks.ts"

/** The answer to a request, and the faults on its way. Times in milliseconds. */
export interface Reply {
  /** Pause before `answer` is called. */
  readonly slow: number
  /** Called after that pause. Null closes the connection. */
  readonly answer: () => Answer | null
  /** Pause between the answer and its first byte. */
  readonly late: number
  readonly spoiler: Spoiler | null
}

/**
 * The true state of a submission, also where a fault makes the sandbox answer otherwise. A final state never changes.
 */
export const Truth = Schema.Struct({
  key: Schema.String,
  /** Complete requests that were received with the key. */
  receipts: Schema.Int,
  /** `absent`: not carried out so far. `refused`: never carried out. */
  status: Schema.Literals(["absent", "refused", "pending", "succeeded", "failed"]),
  final: Schema.Boolean
})
export type Truth = typeof Truth.Type

export interface SubmissionsOptions {
  readonly seed: string
  readonly mix: OutcomeMix
  readonly record: SubmissionRecord
  /** The current switches. */
  readonly faults: () => FaultSettings
  /** Sends webhooks. Absent: there is no receiver. */
  readonly webhooks?: Webhooks | undefined
}

export interface Submissions {
  /** Records the receipt. Then the submission takes effect. */
  readonly receive: (submission: ReceivedRequest) => Effect.Effect<Reply, RecordFailed>
  /** Records a request that was not received completely. */
  readonly abandon: (key: SubmissionKey) => Effect.Effect<void, RecordFailed>
  /** Answers a status read. */
  readonly read: (key: SubmissionKey) => Effect.Effect<Reply>
  readonly truth: (key: SubmissionKey) => Effect.Effect<Truth>
  /** Every key that was received. */
  readonly keys: () => Iterable<SubmissionKey>
}

/** Restores the state from the record, and appends to it. */
export const makeSubmissions = Effect.fnUntraced(function*(options: SubmissionsOptions) {
  const receipts = yield* options.record.receipts
  const entries = yield* Effect.try({
    try: () => restore(receipts),
    catch: (cause) => cause instanceof RecordFailed ? cause : new RecordFailed({ message: String(cause), cause })
  })
  // Webhooks that were to come when the sandbox stopped.
  const now = yield* Clock.currentTimeMillis
  for (const [key, { fate }] of entries) announce(options, key, fate, now)
  const submissions: Submissions = {
    receive: (submission) =>
      Effect.uninterruptible(
        Clock.clockWith((clock) => receive(options, entries, submission, clock.currentTimeMillisUnsafe()))
      ),
    abandon: (key) =>
      Clock.clockWith((clock) =>
        options.record.append({
          key,
          receipt: 0,
          at: clock.currentTimeMillisUnsafe(),
          outcome: "incomplete",
          faults: []
        })
      ),
    read: makeRead(options, entries),
    truth: (key) => Clock.clockWith((clock) => Effect.sync(() => truth(entries, key, clock.currentTimeMillisUnsafe()))),
    keys: () => entries.keys()
  }
  return submissions
})

/** Finds the faults that strike on an occasion, and collects their names. */
class StruckFaults {
  readonly names: Array<FaultName> = []
  private readonly options: SubmissionsOptions
  private readonly occasion: Occasion
  constructor(options: SubmissionsOptions, occasion: Occasion) {
    this.options = options
    this.occasion = occasion
  }

  find(name: KeyedFault): Strike | null {
    const strike = strikes(this.options.seed, this.options.faults(), name, this.occasion)
    if (strike !== null) this.names.push(name)
    return strike
  }

  /** The faults that strike the answer on its way. */
  onTheWay(): Pick<Reply, "late" | "spoiler"> {
    const late = this.find("late")?.milliseconds ?? 0
    return { late, spoiler: spoilers.find((name) => this.find(name) !== null) ?? null }
  }
}

const chooseFate = (
  options: SubmissionsOptions,
  key: SubmissionKey,
  effectiveAt: number,
  submission: Submission
): Fate => {
  const { instruction, sendBefore } = submission
  const instructed = instruction?.faults
  if (effectiveAt > sendBefore) return { outcome: "too_late", settlement: undefined, instructed }
  const settlement = settle(options.seed, options.mix, { key, effectiveAt, instruction })
  return { outcome: settlement.outcome === "rejected" ? "rejected" : "accepted", settlement, instructed }
}

const firstAnswer = (key: SubmissionKey, { outcome, settlement }: Fate): Answer | null => {
  if (outcome === "lost") return null
  if (settlement === undefined) return tooLate(key)
  const { failure, reference } = settlement
  if (outcome === "rejected") return problemAnswer(422, failure!.code, failure!.message, key)
  return succeedsAtOnce(settlement)
    ? jsonAnswer<SandboxAnswer>(200, { reference, idempotency_key: key, status: "succeeded" })
    : jsonAnswer<SandboxAnswer>(202, { reference, idempotency_key: key, status: "pending" })
}

const tooLate = (key: SubmissionKey) =>
  problemAnswer(409, "too_late", "Send-Before has passed; nothing was carried out", key)
const duplicateKey = (key: SubmissionKey) => problemAnswer(409, "duplicate_key", "The key was received before", key)
const notFound = (key: SubmissionKey) => problemAnswer(404, "not_found", "The submission is not known", key)

/** The answer about another submission. */
const foreignAnswer = ({ seed }: SubmissionsOptions, key: SubmissionKey): Answer =>
  jsonAnswer<SandboxAnswer>(200, foreignStatus(seed, key))

/**
 * Decides the outcome of a receipt. Sets the fate of the entry synchronously, if the receipt is the first valid one.
 */
const decideReceipt = (
  options: SubmissionsOptions,
  entry: Entry,
  { key, now, submission }: { readonly key: SubmissionKey; readonly now: number; readonly submission: Submission },
  faults: StruckFaults
): { readonly outcome: ReceiptOutcome; readonly slow: number; readonly answer: Answer | null } => {
  const lost = entry.fate === undefined ? faults.find("lose") !== null : entry.fate.outcome === "lost"
  if (lost) {
    entry.fate ??= { outcome: "lost", settlement: undefined, instructed: submission.instruction?.faults }
    return { outcome: "lost", slow: 0, answer: null }
  }
  const slow = faults.find("slow")?.milliseconds ?? 0
  if (entry.fate === undefined) {
    entry.fate = chooseFate(options, key, now + slow, submission)
    return { outcome: entry.fate.outcome, slow, answer: firstAnswer(key, entry.fate) }
  }
  return faults.find("duplicate_key_rejected") === null
    ? { outcome: "repeated", slow, answer: firstAnswer(key, entry.fate) }
    : { outcome: "duplicate_key", slow, answer: duplicateKey(key) }
}

/**
 * Counts, decides and takes a place in the record in one synchronous step. So the receipts of a key are in the record
 * in the order of their numbers. A first answer is durable before a repeated request gets it.
 */
const receive = (
  options: SubmissionsOptions,
  entries: Entries,
  request: ReceivedRequest,
  now: number
): Effect.Effect<Reply, RecordFailed> => {
  const { body, key } = request
  const entry = entryOf(entries, key)
  const isFateOpen = entry.fate === undefined
  const parsed = parseSubmission(request)
  const submission = Result.getOrUndefined(parsed)
  const faults = new StruckFaults(options, {
    key,
    stage: "submission",
    attempt: ++entry.receipts,
    instructed: isFateOpen ? submission?.instruction?.faults : entry.fate?.instructed
  })
  const { answer, outcome, slow } = submission === undefined
    ? { outcome: "invalid" as const, slow: 0, answer: invalid(key, parsed) }
    : decideReceipt(options, entry, { key, now, submission }, faults)
  const isForeign = answer !== null && faults.find("foreign_answer") !== null
  const way = outcome === "lost" ? { late: 0, spoiler: null } : faults.onTheWay()
  const { fate } = entry
  const recorded = options.record.append({
    key,
    receipt: entry.receipts,
    at: now,
    outcome,
    faults: faults.names,
    body_sha256: hash("sha256", body),
    ...submission && { type: submission.type },
    ...isFateOpen && fate?.settlement && { settlement: fate.settlement },
    ...isFateOpen && fate?.instructed && { instructed: fate.instructed }
  })
  return Effect.map(recorded, () => {
    entry.recorded ||= fate !== undefined
    if (isFateOpen) announce(options, key, fate, now)
    return { slow, answer: () => isForeign ? foreignAnswer(options, key) : answer, ...way }
  })
}

/** Sends the webhooks of a submission from now on, if it was accepted. */
const announce = ({ webhooks }: SubmissionsOptions, key: SubmissionKey, fate: Fate | undefined, now: number): void => {
  if (fate?.outcome === "accepted") webhooks?.announce(key, fate.settlement!, fate.instructed, now)
}

const invalid = (key: SubmissionKey, parsed: Result.Result<Submission, string>): Answer =>
  problemAnswer(400, "invalid_request", Result.isFailure(parsed) ? parsed.failure : "", key)

/** The fate of a submission. Undefined until the record has it. */
const known = (entries: Entries, key: SubmissionKey): Fate | undefined => {
  const entry = entries.get(key)
  return entry?.recorded === true ? entry.fate : undefined
}

const makeRead = (options: SubmissionsOptions, entries: Entries): Submissions["read"] => {
  let readsOfUnknown = 0
  return (key) =>
    Clock.clockWith((clock) =>
      Effect.sync(() => {
        const entry = entries.get(key)
        // A read of an unknown key adds no entry: otherwise reads could fill the memory.
        const attempt = entry === undefined ? ++readsOfUnknown : ++entry.reads
        const instructed = known(entries, key)?.instructed
        const faults = new StruckFaults(options, { key, stage: "status", attempt, instructed })
        return {
          slow: faults.find("slow")?.milliseconds ?? 0,
          answer: () =>
            faults.find("foreign_answer") === null
              ? statusAnswer(key, known(entries, key), clock.currentTimeMillisUnsafe(), attempt, faults)
              : foreignAnswer(options, key),
          ...faults.onTheWay()
        }
      })
    )
}

const statusAnswer = (
  key: SubmissionKey,
  fate: Fate | undefined,
  now: number,
  attempt: number,
  faults: StruckFaults
): Answer => {
  const settlement = fate?.settlement
  const truth = settlement === undefined ? null : statusAt(key, settlement, now)
  if (settlement === undefined || truth === null) return notFound(key)
  const hidden = faults.find("not_found_for")
  if (hidden !== null && now < settlement.effective_at + hidden.milliseconds) return notFound(key)
  const flapping = faults.find("flapping_status")
  return flapping !== null && attempt <= flapping.reads
    ? flappingAnswer(truth, attempt)
    : jsonAnswer<SandboxStatus>(200, truth)
}

/** The answers of `flapping_status` in turn. A final status among them is always the true one. */
const flappingAnswer = (truth: SandboxStatus, read: number): Answer => {
  const { idempotency_key, reference } = truth
  const answers = [
    jsonAnswer<SandboxStatus>(200, { reference, idempotency_key, status: "pending" }),
    jsonAnswer(200, truth),
    notFound(idempotency_key)
  ]
  return answers[(read - 1) % 4] ?? badGateway
}

const truth = (entries: Entries, key: SubmissionKey, now: number): Truth => {
  const receipts = entries.get(key)?.receipts ?? 0
  const fate = known(entries, key)
  if (fate === undefined) return { key, receipts, status: "absent", final: false }
  if (fate.outcome !== "accepted" || fate.settlement === undefined) {
    return { key, receipts, status: "refused", final: true }
  }
  const status = statusAt(key, fate.settlement, now)?.status ?? "absent"
  return { key, receipts, status, final: status === "succeeded" || status === "failed" }
}
