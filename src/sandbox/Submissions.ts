/**
 * Receives submissions and answers status reads: the sandbox without its sockets.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { hash } from "node:crypto"
import { type Answer, badGateway, type Demand, type RequestHead, type Submission } from "./Dialect.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { type ReceiptOutcome, RecordFailed, type SubmissionRecord } from "./Record.ts"
import { foreignAnswer, type Reply, type ReplyOptions, strikesOn, type StruckFaults } from "./Reply.ts"
import {
  foreignKnown,
  knownAt,
  type KnownSubmission,
  type OutcomeMix,
  type SandboxOutcome,
  settle,
  succeedsAtOnce
} from "./SandboxOutcome.ts"
import {
  type Entries,
  type Entry,
  entryOf,
  type Fate,
  hasKey,
  hasRecorded,
  knownFate,
  restore,
  type Truth,
  truthOf
} from "./SubmissionEntries.ts"
import type { Webhooks } from "./Webhooks.ts"

/** A complete request with a submission. */
export interface ReceivedRequest {
  /** Null: the body has it. */
  readonly key: SubmissionKey | null
  readonly head: RequestHead
  readonly body: Buffer
}

/** A person or a client ends a submission that is open. */
export type Verdict = Extract<Demand, { readonly _tag: "Cancel" | "Approve" }>

interface SubmissionsOptions extends ReplyOptions {
  readonly mix: OutcomeMix
  readonly record: SubmissionRecord
  /** Sends webhooks. Absent: there is no receiver. */
  readonly webhooks?: Webhooks | undefined
}

export interface Submissions {
  /** Records the receipt. Then the submission takes effect. */
  readonly receive: (submission: ReceivedRequest) => Effect.Effect<Reply, RecordFailed>
  /** Records a request that was not received completely. */
  readonly abandon: (key: SubmissionKey) => Effect.Effect<void, RecordFailed>
  readonly read: (demand: StatusRead, head: RequestHead) => Effect.Effect<Reply>
  /** Cancels or approves a submission, if the dialect allows that in its state. */
  readonly decide: (demand: Verdict, head: RequestHead) => Effect.Effect<Reply, RecordFailed>
  readonly truth: (key: SubmissionKey) => Effect.Effect<Truth>
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
  for (const [key, { fate }] of entries.byKey) announce(options, key, fate, now)
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
    decide: (demand, head) =>
      Effect.uninterruptible(
        Clock.clockWith((clock) => decide(options, entries, demand, head, clock.currentTimeMillisUnsafe()))
      ),
    truth: (key) =>
      Clock.clockWith((clock) => Effect.sync(() => truthOf(entries, key, clock.currentTimeMillisUnsafe()))),
    keys: () => entries.byKey.keys()
  }
  return submissions
})

/** A valid request. */
interface Received {
  readonly submission: Submission
  readonly head: RequestHead
  /** SHA-256 of the body in hexadecimal. */
  readonly body: string
}

const chooseFate = (
  options: SubmissionsOptions,
  key: SubmissionKey,
  effectiveAt: number,
  { body, submission: { echo = null, instruction, sendBefore } }: Received
): Fate => {
  const told = { instructed: instruction?.faults, echo, body }
  if (effectiveAt > sendBefore) return { outcome: "too_late", settlement: undefined, ...told }
  const settlement = settle(options.seed, options.mix, { key, effectiveAt, instruction })
  return { outcome: settlement.outcome === "rejected" ? "rejected" : "accepted", settlement, ...told }
}

/** The first answer for a fate, or the same again. Null: the request is lost. */
const answerTo = (
  { dialect: { write } }: SubmissionsOptions,
  key: SubmissionKey,
  { body: first, echo, outcome, settlement }: Fate,
  { body, head }: Received,
  isFirst: boolean
): Answer | null => {
  if (outcome === "lost") return null
  if (settlement === undefined) return write({ _tag: "TooLate", key }, head)
  const { effective_at: acceptedAt, failure, reference } = settlement
  if (outcome === "rejected") return write({ _tag: "Refused", key, failure: failure! }, head)
  const isAtOnce = succeedsAtOnce(settlement)
  const status = { reference, idempotency_key: key, status: isAtOnce ? "succeeded" : "pending" } as const
  const settledAt = isAtOnce ? acceptedAt : null
  const known = { at: acceptedAt, status, settlement, acceptedAt, settledAt, returnedAt: null, echo }
  return write({ _tag: "Taken", known, isFirst, isSame: body === first }, head)
}

/**
 * Decides the outcome of a receipt. Sets the fate of the entry synchronously, if the receipt is the first valid one.
 */
const decideReceipt = (
  options: SubmissionsOptions,
  entry: Entry,
  { key, now, received }: { readonly key: SubmissionKey; readonly now: number; readonly received: Received },
  faults: StruckFaults
): { readonly outcome: ReceiptOutcome; readonly slow: number; readonly answer: Answer | null } => {
  const isFence = received.submission.isFence === true
  if (isFence && !hasKey(entry.fate)) entry.fate = undefined
  const lost = entry.fate === undefined ? !isFence && faults.find("lose") !== null : entry.fate.outcome === "lost"
  if (lost) {
    entry.fate ??= {
      outcome: "lost",
      settlement: undefined,
      instructed: received.submission.instruction?.faults,
      echo: null,
      body: received.body
    }
    return { outcome: "lost", slow: 0, answer: null }
  }
  const slow = faults.find("slow")?.milliseconds ?? 0
  if (entry.fate === undefined) {
    entry.fate = chooseFate(options, key, now + slow, received)
    return { outcome: entry.fate.outcome, slow, answer: answerTo(options, key, entry.fate, received, true) }
  }
  return faults.find("duplicate_key_rejected") === null
    ? { outcome: "repeated", slow, answer: answerTo(options, key, entry.fate, received, false) }
    : { outcome: "duplicate_key", slow, answer: options.dialect.write({ _tag: "DuplicateKey", key }, received.head) }
}

/**
 * Counts, decides and takes a position in the record in one synchronous step. So the receipts of a key are in the record
 * in the order of their numbers. A first answer is durable before a repeated request gets it.
 */
const receive = (
  options: SubmissionsOptions,
  entries: Entries,
  request: ReceivedRequest,
  now: number
): Effect.Effect<Reply, RecordFailed> => {
  const { head } = request
  const parsed = options.dialect.submissionOf(head, request.body.toString("utf8"))
  const body = hash("sha256", request.body)
  const submission = Result.getOrUndefined(parsed)
  const key = request.key ?? submission?.key ?? null
  if (key === null) {
    return Effect.succeed({
      slow: 0,
      answer: () => invalid(options, key, parsed, head),
      late: 0,
      spoiler: null
    })
  }
  const entry = entryOf(entries, key)
  const isFateOpen = entry.fate === undefined || submission?.isFence === true && !hasKey(entry.fate)
  const faults = strikesOn(options, {
    key,
    stage: "submission",
    attempt: ++entry.receipts,
    instructed: isFateOpen ? submission?.instruction?.faults : entry.fate?.instructed
  })
  const { answer, outcome, slow } = submission === undefined
    ? { outcome: "invalid" as const, slow: 0, answer: invalid(options, key, parsed, head) }
    : decideReceipt(options, entry, { key, now, received: { submission, head, body } }, faults)
  const isForeign = answer !== null && faults.find("foreign_answer") !== null
  const way = outcome === "lost" ? { late: 0, spoiler: null } : faults.onTheWay()
  const { fate } = entry
  const recorded = options.record.append({
    key,
    receipt: entry.receipts,
    at: now,
    outcome,
    faults: faults.names,
    body_sha256: body,
    ...submission && { type: submission.type },
    ...submission?.isFence === true && { fence: true as const },
    ...isFateOpen && fate?.settlement && { settlement: fate.settlement },
    ...isFateOpen && fate?.settlement && fate.echo !== null && { echo: fate.echo },
    ...isFateOpen && fate?.instructed && { instructed: fate.instructed }
  })
  return Effect.map(recorded, () => {
    if (fate !== undefined) hasRecorded(entries, key, entry)
    if (isFateOpen) announce(options, key, fate, now)
    return { slow, answer: () => isForeign ? foreignAnswer(options, key, fate, head, now) : answer, ...way }
  })
}

/** Ends an open submission as asked, and answers with its state. The record has the verdict before the answer leaves. */
const decide = (
  options: SubmissionsOptions,
  { byKey, byReference }: Entries,
  { _tag: verdict, reference }: Verdict,
  head: RequestHead,
  now: number
): Effect.Effect<Reply, RecordFailed> => {
  const { dialect } = options
  const key = byReference.get(reference)
  const entry = key === undefined ? undefined : byKey.get(key)
  const fate = entry?.fate
  const known = key === undefined || fate?.settlement === undefined
    ? null
    : knownAt(key, fate.settlement, fate.echo, now)
  if (key === undefined || fate?.settlement === undefined || known === null) {
    const answer = () => dialect.write({ _tag: "NotFound", demand: { _tag: "ReadByReference", reference } }, head)
    return Effect.succeed({ slow: 0, answer, late: 0, spoiler: null })
  }
  const faults = strikesOn(options, { key, stage: "submission", attempt: ++entry!.decisions, instructed: undefined })
  const way = faults.onTheWay()
  if (dialect.isOpen?.(known) !== true) {
    const failure = { code: "not_open", message: "The order is not open." }
    return Effect.succeed({ slow: 0, answer: () => dialect.write({ _tag: "Refused", key, failure }, head), ...way })
  }
  const isCancelled = verdict === "Cancel"
  const settlement: SandboxOutcome = {
    reference: fate.settlement.reference,
    effective_at: fate.settlement.effective_at,
    outcome: isCancelled ? "failed" : "succeeded",
    settles_at: now,
    failure: isCancelled ? { code: "canceled", message: "The order was cancelled." } : null
  }
  entry!.fate = { ...fate, settlement }
  const outcome = isCancelled ? "cancelled" as const : "approved" as const
  const shown = knownAt(key, settlement, fate.echo, now)!
  return Effect.map(
    options.record.append({ key, receipt: 0, at: now, outcome, faults: faults.names, settlement }),
    () => ({ slow: 0, answer: () => dialect.write({ _tag: "Status", known: shown }, head), ...way })
  )
}

/** Sends the webhooks of a submission from now on, if it was accepted. */
const announce = ({ webhooks }: SubmissionsOptions, key: SubmissionKey, fate: Fate | undefined, now: number): void => {
  if (fate?.outcome !== "accepted") return
  const { echo, instructed, settlement } = fate
  webhooks?.announce({ key, settlement: settlement!, instructed, echo }, now)
}

const invalid = (
  { dialect }: SubmissionsOptions,
  key: SubmissionKey | null,
  parsed: Result.Result<Submission, string>,
  head: RequestHead
) => dialect.write({ _tag: "Invalid", key, reason: Result.isFailure(parsed) ? parsed.failure : "" }, head)

export type StatusRead = Extract<Demand, { readonly _tag: "ReadByKey" | "ReadByReference" | "List" }>

/** The newest first, with the states that the faults let a read show. */
const allShown = (options: ReplyOptions, entries: Entries, now: number) =>
  [...entries.byReference.values()].toReversed().flatMap((key) => {
    const fate = knownFate(entries, key)
    if (fate?.outcome !== "accepted") return []
    const attempt = ++entryOf(entries, key).reads
    const faults = strikesOn(options, { key, stage: "status", attempt, instructed: fate.instructed })
    const shown = shownAt(key, fate, now, attempt, faults)
    const isForeign = faults.find("foreign_answer") !== null
    return [...isForeign ? [foreignKnown(options.seed, key, fate.echo, now)] : [], ...shown === null ? [] : [shown]]
  })

/** Faults on the way strike the answer, and those of a status its entries. */
const list = (
  options: ReplyOptions,
  entries: Entries,
  { after = null, answer, limit, matches = () => true }: Extract<StatusRead, { readonly _tag: "List" }>,
  attempt: number
): Effect.Effect<Reply> =>
  Clock.clockWith((clock) =>
    Effect.sync(() => {
      const faults = strikesOn(options, { key: "list", stage: "status", attempt, instructed: undefined })
      return {
        slow: faults.find("slow")?.milliseconds ?? 0,
        answer: () => {
          const shown = allShown(options, entries, clock.currentTimeMillisUnsafe())
          const found = shown.filter((one) => one !== "bad_gateway")
          if (found.length < shown.length) return badGateway
          const matching = found.filter(matches)
          // After an unknown reference the list begins anew, and leaves nothing out.
          const start = matching.findIndex(({ status }) => status.reference === after) + 1
          return answer(matching.slice(start, start + limit), matching.length > start + limit)
        },
        ...faults.onTheWay()
      }
    })
  )

/** Makes the function that answers status reads. */
const makeRead = (options: ReplyOptions, entries: Entries) => {
  let readsOfUnknown = 0
  let lists = 0
  return (demand: StatusRead, head: RequestHead): Effect.Effect<Reply> => {
    if (demand._tag === "List") return list(options, entries, demand, ++lists)
    return Clock.clockWith((clock) =>
      Effect.sync(() => {
        const key = demand._tag === "ReadByKey" ? demand.key : entries.byReference.get(demand.reference)
        const entry = key === undefined ? undefined : entries.byKey.get(key)
        // A read of an unknown key adds no entry: otherwise reads could fill the memory.
        const attempt = entry === undefined ? ++readsOfUnknown : ++entry.reads
        const name = key ?? Object.values(demand)[1]!
        const fate = () => key === undefined ? undefined : knownFate(entries, key)
        const faults = strikesOn(options, { key: name, stage: "status", attempt, instructed: fate()?.instructed })
        return {
          slow: faults.find("slow")?.milliseconds ?? 0,
          answer: () => {
            const now = clock.currentTimeMillisUnsafe()
            if (faults.find("foreign_answer") !== null) return foreignAnswer(options, name, fate(), head, now)
            const shown = key === undefined ? null : shownAt(key, fate(), now, attempt, faults)
            if (shown === "bad_gateway") return badGateway
            const { write } = options.dialect
            return write(shown === null ? { _tag: "NotFound", demand } : { _tag: "Status", known: shown }, head)
          },
          ...faults.onTheWay()
        }
      })
    )
  }
}

/** What a read shows. Null: the submission is not known. */
const shownAt = (
  key: SubmissionKey,
  fate: Fate | undefined,
  now: number,
  attempt: number,
  faults: StruckFaults
): KnownSubmission | "bad_gateway" | null => {
  const settlement = fate?.settlement
  const truth = settlement === undefined ? null : knownAt(key, settlement, fate!.echo, now)
  if (settlement === undefined || truth === null) return null
  const hidden = faults.find("not_found_for")
  if (hidden !== null && now < settlement.effective_at + hidden.milliseconds) return null
  const flapping = faults.find("flapping_status")
  if (flapping === null || attempt > flapping.reads) return truth
  // In turn. A final status among them is always the true one.
  const { idempotency_key, reference } = truth.status
  const pending = { ...truth, status: { reference, idempotency_key, status: "pending" as const }, settledAt: null }
  const shown = [pending, truth, null, "bad_gateway" as const]
  return shown[(attempt - 1) % 4]!
}
