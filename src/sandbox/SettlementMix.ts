/**
 * What becomes of a submission. It is decided once, when the submission is received: by the seed and the key, or by an
 * instruction in the payload. From then on its status is a function of the time, so it needs no timers and outlives
 * restarts.
 */
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { formatTimestamp, isInstant } from "../domain/Timestamp.ts"
import { chance, digest } from "./Chance.ts"
import { InstructedFaults, Milliseconds } from "./Faults.ts"
import { type SandboxAnswer, SandboxFailure, type SandboxStatus, type SubmissionKey } from "./Protocol.ts"

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

/** What a payload may say, in a member `sandbox`, of what is to become of its submission. What it leaves open is seeded. */
export const Instruction = Schema.Struct({
  /** `pending` stays so for ever. */
  outcome: Schema.optionalKey(Schema.Literals(["succeeded", "failed", "rejected", "pending"])),
  /** 0 when an outcome is given without it: a success is then answered at once. */
  settle_after_ms: Schema.optionalKey(Milliseconds),
  /** Why it fails or is rejected. Any text: providers have their own ideas of codes. */
  code: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String),
  faults: Schema.optionalKey(InstructedFaults)
}).check(
  Schema.makeFilter(
    ({ outcome, settle_after_ms }) =>
      settle_after_ms === undefined || (outcome !== "pending" && outcome !== "rejected"),
    { expected: "no settle_after_ms: what is pending stays so, what is rejected is so at once" }
  )
)
export type Instruction = typeof Instruction.Type

/** What was decided about a submission that was understood and came in time. */
export const Settlement = Schema.Struct({
  reference: Schema.String,
  outcome: Schema.Literals(["succeeded", "failed", "rejected", "pending"]),
  /** The submission is not known before. */
  effective_at: Instant,
  /** It is pending before; null when it stays so for ever. */
  settles_at: Schema.NullOr(Instant),
  /** Why it fails or is rejected. */
  failure: Schema.NullOr(SandboxFailure)
}).check(
  Schema.makeFilter(
    ({ failure, outcome, settles_at }) =>
      (failure !== null) === (outcome === "failed" || outcome === "rejected")
      && (settles_at === null) === (outcome === "pending"),
    { expected: "a failure with what fails or is rejected, and an end of what is not pending for ever" }
  )
)
export type Settlement = typeof Settlement.Type

const Weight = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))

/** How the seed decides: the shares of the four outcomes, and how long what is pending stays so. */
export const SettlementMix = Schema.Struct({
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
    { expected: "a share above 0, and a shortest time not above the longest" }
  )
)
export type SettlementMix = typeof SettlementMix.Type

export const defaultMix: SettlementMix = {
  succeeded_at_once: 30,
  succeeded_later: 50,
  failed_later: 12,
  rejected: 8,
  shortest_ms: 200,
  longest_ms: 3000
}

const failures: ReadonlyArray<SandboxFailure> = [
  { code: "insufficient_funds", message: "The account does not hold the amount." },
  { code: "account_closed", message: "The account is closed." },
  { code: "limit_exceeded", message: "The amount exceeds the limit of the account." }
]

/** The outcome that the seed gives, and whether it is there at once. */
const drawOutcome = (seed: string, key: string, mix: SettlementMix) => {
  const shares = [
    { share: mix.succeeded_at_once, outcome: "succeeded", atOnce: true },
    { share: mix.succeeded_later, outcome: "succeeded", atOnce: false },
    { share: mix.failed_later, outcome: "failed", atOnce: false },
    { share: mix.rejected, outcome: "rejected", atOnce: true }
  ] as const
  let left = chance(seed, "outcome", key) * shares.reduce((sum, { share }) => sum + share, 0)
  const drawn = shares.find(({ share }) => (left -= share) < 0)
  // Rounding may leave nothing to draw at the far end: the last one that can be drawn at all.
  return drawn ?? shares.findLast(({ share }) => share > 0)!
}

const drawDelay = (seed: string, key: string, { longest_ms, shortest_ms }: SettlementMix): number =>
  shortest_ms + Math.floor(chance(seed, "delay", key) * (longest_ms - shortest_ms + 1))

const delayOf = (instruction: Instruction, atOnce: boolean, drawn: () => number): number => {
  if (instruction.settle_after_ms !== undefined) return instruction.settle_after_ms
  return instruction.outcome !== undefined || atOnce ? 0 : drawn()
}

const referenceOf = (seed: string, key: SubmissionKey): string => `sbx_${digest(seed, "reference", key).slice(0, 24)}`

/** What is true of another submission than that of the key: it succeeded. */
export const foreignStatus = (seed: string, key: SubmissionKey): SandboxAnswer => {
  const other = digest(seed, "foreign", key)
  return { reference: referenceOf(seed, other), idempotency_key: other, status: "succeeded" }
}

/** Decides what becomes of a submission that takes effect at `effectiveAt`. */
export const settle = (
  seed: string,
  mix: SettlementMix,
  submission: { readonly key: string; readonly effectiveAt: number; readonly instruction: Instruction | undefined }
): Settlement => {
  const { effectiveAt, instruction = {}, key } = submission
  const drawn = drawOutcome(seed, key, mix)
  const outcome = instruction.outcome ?? drawn.outcome
  const delay = outcome === "rejected" ? 0 : delayOf(instruction, drawn.atOnce, () => drawDelay(seed, key, mix))
  const failure = failures[Math.floor(chance(seed, "failure", key) * failures.length)]!
  return {
    reference: referenceOf(seed, key),
    outcome,
    effective_at: effectiveAt,
    settles_at: outcome === "pending" ? null : effectiveAt + delay,
    failure: outcome === "failed" || outcome === "rejected"
      ? { code: instruction.code ?? failure.code, message: instruction.message ?? failure.message }
      : null
  }
}

/** Whether the first answer already said that it succeeded. */
export const succeedsAtOnce = ({ effective_at, outcome, settles_at }: Settlement): boolean =>
  outcome === "succeeded" && settles_at === effective_at

/** What is true of the submission at an instant; null before it took effect. Once final, it stays as it is. */
export const statusAt = (key: SubmissionKey, settlement: Settlement, now: number): SandboxStatus | null => {
  const { effective_at, failure, settles_at } = settlement
  if (now < effective_at) return null
  const names = { reference: settlement.reference, idempotency_key: key }
  if (settles_at === null || now < settles_at) return { ...names, status: "pending" }
  return failure === null ? { ...names, status: "succeeded" } : { ...names, status: "failed", ...failure }
}
