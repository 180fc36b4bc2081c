/** Receives submissions and answers status reads: the sandbox without its sockets. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { hash } from "node:crypto"
import { type Answer, badGateway, type Demand, type Dialect, type RequestHead, type Submission } from "./Dialect.ts"
import { type FaultSettings, type Occasion, type Spoiler, strikesOn, type StruckFaults } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { type ReceiptOutcome, RecordFailed, type SubmissionRecord } from "./Record.ts"
import {
  foreignKnown,
  knownAt,
  type KnownSubmission,
  type OutcomeMix,
  type SandboxOutcome,
  settle
} from "./SandboxOutcome.ts"
import {
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

interface ReceivedRequest {
  /** Null: the body has it. */
  readonly key: SubmissionKey | null
  readonly head: RequestHead
  readonly body: Buffer
}

interface Received {
  readonly submission: Submission
  readonly head: RequestHead
  /** SHA-256 of the body in hexadecimal. */
  readonly body: string
}

/** A person or a client ends a submission that is open. */
type Verdict = Extract<Demand, { readonly _tag: "Cancel" | "Approve" }>

type ListRead = Extract<Demand, { readonly _tag: "List" }>
type SingleRead = Extract<Demand, { readonly _tag: "ReadByKey" | "ReadByReference" }>

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

interface SubmissionsOptions {
  readonly dialect: Dialect
  readonly seed: string
  readonly faults: () => FaultSettings
  readonly mix: OutcomeMix
  readonly record: SubmissionRecord
  /** Sends webhooks. Absent: there is no receiver. */
  readonly webhooks?: Webhooks | undefined
}

const unspoilt = { slow: 0, late: 0, spoiler: null }

const pendingOf = (known: KnownSubmission): KnownSubmission => {
  const { idempotency_key, reference } = known.status
  return { ...known, status: { reference, idempotency_key, status: "pending" }, settledAt: null }
}

export type Submissions = Effect.Success<ReturnType<typeof makeSubmissions>>

/** Restores the state from the record, and appends to it. */
export const makeSubmissions = Effect.fnUntraced(function*(options: SubmissionsOptions) {
  const { dialect, faults: settings, mix, record, seed, webhooks } = options
  const { write } = dialect
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const receipts = yield* record.receipts
  const entries = yield* Effect.try({
    try: () => restore(receipts),
    catch: (cause) => cause instanceof RecordFailed ? cause : new RecordFailed({ message: String(cause), cause })
  })
  let readsOfUnknown = 0
  let lists = 0

  /** Sends the webhooks of a submission from an instant on, if it was accepted. */
  const announce = (key: SubmissionKey, fate: Fate | undefined, from: number): void => {
    if (fate?.outcome !== "accepted") return
    const { echo, instructed, settlement } = fate
    webhooks?.announce({ key, settlement: settlement!, instructed, echo }, from)
  }
  // Webhooks that were to come when the sandbox stopped.
  for (const [key, { fate }] of entries.byKey) announce(key, fate, now())

  const foreignAnswer = (key: string, fate: Fate | undefined, head: RequestHead, at: number): Answer =>
    write({ _tag: "Status", known: foreignKnown(seed, key, fate?.echo ?? null, at) }, head)

  const chooseFate = (
    key: SubmissionKey,
    effectiveAt: number,
    { body, submission: { echo = null, instruction, sendBefore } }: Received
  ): Fate => {
    const told = { instructed: instruction?.faults, echo, body }
    if (effectiveAt > sendBefore) return { outcome: "too_late", settlement: undefined, ...told }
    const settlement = settle(seed, mix, { key, effectiveAt, instruction })
    return { outcome: settlement.outcome === "rejected" ? "rejected" : "accepted", settlement, ...told }
  }

  /** The first answer for a fate, or the same again. Null: the request is lost. A failure is never answered at once. */
  const answerTo = (
    key: SubmissionKey,
    { body: first, echo, outcome, settlement }: Fate,
    { body, head }: Received,
    isFirst: boolean
  ): Answer | null => {
    if (outcome === "lost") return null
    if (settlement === undefined) return write({ _tag: "TooLate", key }, head)
    if (outcome === "rejected") return write({ _tag: "Refused", key, failure: settlement.failure! }, head)
    const reached = knownAt(key, settlement, echo, settlement.effective_at)!
    const known = { ...reached.status.status === "failed" ? pendingOf(reached) : reached, returnedAt: null }
    return write({ _tag: "Taken", known, isFirst, isSame: body === first }, head)
  }

  /** Decides the outcome of a receipt. Sets the fate of the entry synchronously, if the receipt is the first valid one. */
  const decideReceipt = (
    key: SubmissionKey,
    entry: Entry,
    received: Received,
    at: number,
    faults: StruckFaults
  ): { readonly outcome: ReceiptOutcome; readonly slow: number; readonly answer: Answer | null } => {
    const { body, head, submission: { instruction, isFence = false } } = received
    if (isFence && !hasKey(entry.fate)) entry.fate = undefined
    const isLost = entry.fate === undefined ? !isFence && faults.find("lose") !== null : entry.fate.outcome === "lost"
    if (isLost) {
      entry.fate ??= { outcome: "lost", settlement: undefined, instructed: instruction?.faults, echo: null, body }
      return { outcome: "lost", slow: 0, answer: null }
    }
    const slow = faults.find("slow")?.milliseconds ?? 0
    if (entry.fate === undefined) {
      entry.fate = chooseFate(key, at + slow, received)
      return { outcome: entry.fate.outcome, slow, answer: answerTo(key, entry.fate, received, true) }
    }
    return faults.find("duplicate_key_rejected") === null
      ? { outcome: "repeated", slow, answer: answerTo(key, entry.fate, received, false) }
      : { outcome: "duplicate_key", slow, answer: write({ _tag: "DuplicateKey", key }, head) }
  }

  /**
   * Counts, decides and takes a position in the record in one synchronous step. So the receipts of a key are in the record
   * in the order of their numbers. A first answer is durable before a repeated request gets it.
   */
  const receive = ({ body: bytes, head, key: given }: ReceivedRequest): Effect.Effect<Reply, RecordFailed> => {
    const at = now()
    const parsed = dialect.submissionOf(head, bytes.toString("utf8"))
    const submission = Result.getOrUndefined(parsed)
    const key = given ?? submission?.key ?? null
    const invalid = () => write({ _tag: "Invalid", key, reason: Result.isFailure(parsed) ? parsed.failure : "" }, head)
    if (key === null) return Effect.succeed({ ...unspoilt, answer: invalid })
    const body = hash("sha256", bytes)
    const entry = entryOf(entries, key)
    const isFateOpen = entry.fate === undefined || submission?.isFence === true && !hasKey(entry.fate)
    const faults = strikesOn(seed, settings, {
      key,
      stage: "submission",
      attempt: ++entry.receipts,
      instructed: isFateOpen ? submission?.instruction?.faults : entry.fate?.instructed
    })
    const { answer, outcome, slow } = submission === undefined
      ? { outcome: "invalid" as const, slow: 0, answer: invalid() }
      : decideReceipt(key, entry, { submission, head, body }, at, faults)
    const isForeign = answer !== null && faults.find("foreign_answer") !== null
    const way = outcome === "lost" ? unspoilt : faults.onTheWay()
    const { fate } = entry
    const recorded = record.append({
      key,
      receipt: entry.receipts,
      at,
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
      if (isFateOpen) announce(key, fate, at)
      return { ...way, slow, answer: () => isForeign ? foreignAnswer(key, fate, head, at) : answer }
    })
  }

  /** The record has the verdict before the answer leaves. */
  const decide = ({ _tag: verdict, reference }: Verdict, head: RequestHead): Effect.Effect<Reply, RecordFailed> => {
    const at = now()
    const key = entries.byReference.get(reference)
    const entry = key === undefined ? undefined : entries.byKey.get(key)
    const fate = entry?.fate
    const known = key === undefined || fate?.settlement === undefined
      ? null
      : knownAt(key, fate.settlement, fate.echo, at)
    if (key === undefined || fate?.settlement === undefined || known === null) {
      const demand = { _tag: "ReadByReference", reference } as const
      return Effect.succeed({ ...unspoilt, answer: () => write({ _tag: "NotFound", demand }, head) })
    }
    const attempt = ++entry!.decisions
    const faults = strikesOn(seed, settings, { key, stage: "submission", attempt, instructed: undefined })
    const way = { slow: 0, ...faults.onTheWay() }
    if (dialect.isOpen?.(known) !== true) {
      const failure = { code: "not_open", message: "The order is not open." }
      return Effect.succeed({ ...way, answer: () => write({ _tag: "Refused", key, failure }, head) })
    }
    const isCancelled = verdict === "Cancel"
    const settlement: SandboxOutcome = {
      reference: fate.settlement.reference,
      effective_at: fate.settlement.effective_at,
      outcome: isCancelled ? "failed" : "succeeded",
      settles_at: at,
      failure: isCancelled ? { code: "canceled", message: "The order was cancelled." } : null
    }
    entry!.fate = { ...fate, settlement }
    const outcome = isCancelled ? "cancelled" as const : "approved" as const
    const shown = knownAt(key, settlement, fate.echo, at)!
    return Effect.as(
      record.append({ key, receipt: 0, at, outcome, faults: faults.names, settlement }),
      { ...way, answer: () => write({ _tag: "Status", known: shown }, head) }
    )
  }

  const replyToRead = (occasion: Occasion, answer: (faults: StruckFaults, at: number) => Answer): Reply => {
    const faults = strikesOn(seed, settings, occasion)
    return { slow: faults.find("slow")?.milliseconds ?? 0, answer: () => answer(faults, now()), ...faults.onTheWay() }
  }

  const readOne = (demand: SingleRead, head: RequestHead): Reply => {
    const asked = demand._tag === "ReadByKey" ? demand.key : demand.reference
    const key = demand._tag === "ReadByKey" ? asked : entries.byReference.get(asked)
    const entry = key === undefined ? undefined : entries.byKey.get(key)
    // A read of an unknown key adds no entry: otherwise reads could fill the memory.
    const attempt = entry === undefined ? ++readsOfUnknown : ++entry.reads
    const name = key ?? asked
    const fate = () => key === undefined ? undefined : knownFate(entries, key)
    return replyToRead({ key: name, stage: "status", attempt, instructed: fate()?.instructed }, (faults, at) => {
      if (faults.find("foreign_answer") !== null) return foreignAnswer(name, fate(), head, at)
      const shown = shownAt(name, fate(), at, attempt, faults)
      if (shown === "bad_gateway") return badGateway
      return write(shown === null ? { _tag: "NotFound", demand } : { _tag: "Status", known: shown }, head)
    })
  }

  /** The newest first, with the states that the faults let a read show. */
  const allShown = (at: number) =>
    [...entries.byReference.values()].toReversed().flatMap((key) => {
      const fate = knownFate(entries, key)
      if (fate?.outcome !== "accepted") return []
      const attempt = ++entryOf(entries, key).reads
      const faults = strikesOn(seed, settings, { key, stage: "status", attempt, instructed: fate.instructed })
      const shown = shownAt(key, fate, at, attempt, faults)
      const isForeign = faults.find("foreign_answer") !== null
      return [...isForeign ? [foreignKnown(seed, key, fate.echo, at)] : [], ...shown === null ? [] : [shown]]
    })

  /** Faults on the way strike the answer, and those of a status its entries. */
  const list = ({ after = null, answer, limit, matches = () => true }: ListRead): Reply =>
    replyToRead({ key: "list", stage: "status", attempt: ++lists, instructed: undefined }, (_, at) => {
      const shown = allShown(at)
      const found = shown.filter((one) => one !== "bad_gateway")
      if (found.length < shown.length) return badGateway
      const matching = found.filter(matches)
      // After an unknown reference the list begins anew, and leaves nothing out.
      const start = matching.findIndex(({ status }) => status.reference === after) + 1
      return answer(matching.slice(start, start + limit), matching.length > start + limit)
    })

  return {
    /** Records the receipt. Then the submission takes effect. */
    receive: (request: ReceivedRequest) => Effect.uninterruptible(Effect.suspend(() => receive(request))),
    /** Records a request that was not received completely. */
    abandon: (key: SubmissionKey) =>
      Effect.suspend(() => record.append({ key, receipt: 0, at: now(), outcome: "incomplete", faults: [] })),
    read: (demand: ListRead | SingleRead, head: RequestHead) =>
      Effect.sync(() => demand._tag === "List" ? list(demand) : readOne(demand, head)),
    /** Cancels or approves a submission, if the dialect allows that in its state. */
    decide: (demand: Verdict, head: RequestHead) => Effect.uninterruptible(Effect.suspend(() => decide(demand, head))),
    truth: (key: SubmissionKey): Effect.Effect<Truth> => Effect.sync(() => truthOf(entries, key, now())),
    keys: (): Iterable<SubmissionKey> => entries.byKey.keys()
  }
})

/** What a read shows. Null: the submission is not known. */
const shownAt = (
  key: SubmissionKey,
  fate: Fate | undefined,
  at: number,
  attempt: number,
  faults: StruckFaults
): KnownSubmission | "bad_gateway" | null => {
  const settlement = fate?.settlement
  const truth = settlement === undefined ? null : knownAt(key, settlement, fate!.echo, at)
  if (settlement === undefined || truth === null) return null
  const hidden = faults.find("not_found_for")
  if (hidden !== null && at < settlement.effective_at + hidden.milliseconds) return null
  const flapping = faults.find("flapping_status")
  if (flapping === null || attempt > flapping.reads) return truth
  // In turn. A final status among them is always the true one.
  const shown = [pendingOf(truth), truth, null, "bad_gateway" as const]
  return shown[(attempt - 1) % 4]!
}
