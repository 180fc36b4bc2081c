/**
 * Decides the outcome of a submission, once, when it is received: by the seed and the key, or by an instruction in
 * the payload. From then on the status is a function of time, so it needs no timers and survives restarts.
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { formatTimestamp, isInstant } from "../domain/Timestamp.ts"
import { chance, digest, InstructedFaults, Milliseconds } from "./Faults.ts"
import { SandboxFailure, sandboxFailures, type SandboxStatus, type SubmissionKey } from "./Protocol.ts"

/** An instant: milliseconds since 1970 here, RFC 3339 on the wire and in the record. */
export const Instant = Schema.String.check(
  // RFC 3339 allows a lower-case `t` and `z`.
  Schema.makeFilter((text) => isInstant(text.toUpperCase()), { expected: "an instant in RFC 3339" })
).pipe(
  Schema.decodeTo(Schema.Int, {
    decode: SchemaGetter.transform((text: string) => Date.parse(text)),
    encode: SchemaGetter.transform(formatTimestamp)
  })
)

/** The member `sandbox` of a payload: instructs the sandbox how to settle. The seed decides the members left out. */
export const Instruction = Schema.Struct({
  /** `pending` stays pending for ever. */
  outcome: Schema.optionalKey(Schema.Literals(["succeeded", "failed", "rejected", "pending"])),
  /** 0 if an outcome is given without it. A success is then answered at once. */
  settle_after_ms: Schema.optionalKey(Milliseconds),
  /** After this time the receiving bank returns what had succeeded. Without it, never. */
  return_after_ms: Schema.optionalKey(Milliseconds),
  /** Why it fails or is rejected. Any text, because codes differ between providers. */
  code: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String),
  faults: Schema.optionalKey(InstructedFaults)
}).check(
  Schema.makeFilter(
    ({ outcome, settle_after_ms }) =>
      settle_after_ms === undefined || (outcome !== "pending" && outcome !== "rejected"),
    { expected: "no settle_after_ms with the outcome pending or rejected: neither settles later" }
  ),
  Schema.makeFilter(({ outcome, return_after_ms }) => return_after_ms === undefined || outcome === "succeeded", {
    expected: "return_after_ms with the outcome succeeded alone"
  })
)
export type Instruction = typeof Instruction.Type

export const decodeInstruction = Schema.decodeUnknownResult(Instruction, { onExcessProperty: "error", errors: "all" })

/** The decision on a valid submission that arrived in time. */
export const SandboxOutcome = Schema.Struct({
  reference: Schema.String,
  outcome: Schema.Literals(["succeeded", "failed", "rejected", "pending"]),
  /** Before this instant the submission is not known. */
  effective_at: Instant,
  /** Until this instant it is pending; null when it stays pending for ever. */
  settles_at: Schema.NullOr(Instant),
  /** When the receiving bank returns what had succeeded. */
  returns_at: Schema.optionalKey(Instant),
  /** Why it fails or is rejected. */
  failure: Schema.NullOr(SandboxFailure)
}).check(
  Schema.makeFilter(
    ({ failure, outcome, settles_at }) =>
      (failure !== null) === (outcome === "failed" || outcome === "rejected")
      && (settles_at === null) === (outcome === "pending"),
    { expected: "a failure if the outcome is failed or rejected, and settles_at unless it is pending" }
  )
)
export type SandboxOutcome = typeof SandboxOutcome.Type

const Weight = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))

/** Parameters of the seed's decision: shares of the four outcomes, and the range of the time until a later outcome. */
export const OutcomeMix = Schema.Struct({
  succeeded_at_once: Weight,
  succeeded_later: Weight,
  failed_later: Weight,
  rejected: Weight,
  shortest_ms: Milliseconds,
  longest_ms: Milliseconds
}).check(
  Schema.makeFilter(
    (mix) =>
      mix.succeeded_at_once + mix.succeeded_later + mix.failed_later + mix.rejected > 0
      && mix.shortest_ms <= mix.longest_ms,
    { expected: "a share above 0, and shortest_ms not above longest_ms" }
  )
)
export type OutcomeMix = typeof OutcomeMix.Type

export const defaultMix: OutcomeMix = {
  succeeded_at_once: 30,
  succeeded_later: 50,
  failed_later: 12,
  rejected: 8,
  shortest_ms: 200,
  longest_ms: 3000
}

/** What a bank knows of a submission. Times in milliseconds since 1970. */
export interface KnownSubmission {
  /** When it was asked. */
  readonly at: number
  readonly status: SandboxStatus
  /** What comes, of which `status` is a part: for states on the way. */
  readonly settlement: SandboxOutcome
  readonly acceptedAt: number
  /** When the status became final. Null: it is not. */
  readonly settledAt: number | null
  /** When the receiving bank returned what had succeeded. Null: it did not so far. */
  readonly returnedAt: number | null
  /** The `echo` of the submission: see `Dialect`. */
  readonly echo: Schema.Json
}

/** The outcome that the seed chooses, and whether it comes at once. */
const seededOutcome = (seed: string, key: string, mix: OutcomeMix) => {
  const shares = [
    { share: mix.succeeded_at_once, outcome: "succeeded", atOnce: true },
    { share: mix.succeeded_later, outcome: "succeeded", atOnce: false },
    { share: mix.failed_later, outcome: "failed", atOnce: false },
    { share: mix.rejected, outcome: "rejected", atOnce: true }
  ] as const
  let left = chance(seed, "outcome", key) * shares.reduce((sum, { share }) => sum + share, 0)
  const chosen = shares.find(({ share }) => (left -= share) < 0)
  // Rounding may leave none at the end of the range: then the last outcome with a share.
  return chosen ?? shares.findLast(({ share }) => share > 0)!
}

const seededDelay = (seed: string, key: string, { longest_ms, shortest_ms }: OutcomeMix): number =>
  shortest_ms + Math.floor(chance(seed, "delay", key) * (longest_ms - shortest_ms + 1))

const delayOf = (instruction: Instruction, atOnce: boolean, seeded: () => number): number => {
  if (instruction.settle_after_ms !== undefined) return instruction.settle_after_ms
  return instruction.outcome !== undefined || atOnce ? 0 : seeded()
}

const referenceOf = (seed: string, key: SubmissionKey): string => `sbx_${digest(seed, "reference", key).slice(0, 24)}`

/** What the bank knows of another submission than that of the key, which succeeded. */
export const foreignKnown = (seed: string, key: string, echo: Schema.Json, now: number): KnownSubmission => {
  const other = digest(seed, "foreign", key)
  const reference = referenceOf(seed, other)
  return {
    at: now,
    status: { reference, idempotency_key: other, status: "succeeded" },
    settlement: { reference, outcome: "succeeded", effective_at: now, settles_at: now, failure: null },
    acceptedAt: now,
    settledAt: now,
    returnedAt: null,
    echo
  }
}

/** Decides the outcome of a submission that takes effect at `effectiveAt`. */
export const settle = (
  seed: string,
  mix: OutcomeMix,
  submission: { readonly key: string; readonly effectiveAt: number; readonly instruction: Instruction | undefined }
): SandboxOutcome => {
  const { effectiveAt, instruction = {}, key } = submission
  const seeded = seededOutcome(seed, key, mix)
  const outcome = instruction.outcome ?? seeded.outcome
  const delay = outcome === "rejected" ? 0 : delayOf(instruction, seeded.atOnce, () => seededDelay(seed, key, mix))
  const failure = sandboxFailures[Math.floor(chance(seed, "failure", key) * sandboxFailures.length)]!
  return {
    reference: referenceOf(seed, key),
    outcome,
    effective_at: effectiveAt,
    settles_at: outcome === "pending" ? null : effectiveAt + delay,
    ...instruction.return_after_ms !== undefined && { returns_at: effectiveAt + delay + instruction.return_after_ms },
    failure: outcome === "failed" || outcome === "rejected"
      ? { code: instruction.code ?? failure.code, message: instruction.message ?? failure.message }
      : null
  }
}

/** Whether the first answer is already the success. */
export const succeedsAtOnce = ({ effective_at, outcome, settles_at }: SandboxOutcome): boolean =>
  outcome === "succeeded" && settles_at === effective_at

/** What the bank knows of the submission at an instant; null before it takes effect. A final status never changes. */
export const knownAt = (
  key: SubmissionKey,
  settlement: SandboxOutcome,
  echo: Schema.Json,
  now: number
): KnownSubmission | null => {
  const { effective_at: acceptedAt, failure, returns_at = Infinity, settles_at } = settlement
  if (now < acceptedAt) return null
  const names = { reference: settlement.reference, idempotency_key: key }
  const seen = { at: now, settlement, acceptedAt, echo }
  if (settles_at === null || now < settles_at) {
    return { ...seen, status: { ...names, status: "pending" }, settledAt: null, returnedAt: null }
  }
  return {
    ...seen,
    status: failure === null ? { ...names, status: "succeeded" } : { ...names, status: "failed", ...failure },
    settledAt: settles_at,
    returnedAt: now < returns_at ? null : returns_at
  }
}
