/**
 * How patient and how busy the workers are.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type { ReadSchedule } from "../domain/Submission.ts"

export interface SubmissionPolicyShape {
  /**
   * Submissions, and status reads, at the same time in this process. Half of these places are reserved for the providers,
   * in equal parts, so that slow providers do not delay others.
   */
  readonly concurrency: number
  /** The same for one provider. */
  readonly providerConcurrency: number
  /** How long after the claim bytes may leave. What could not be sent by then has failed: `provider_unreachable`. */
  readonly sendWithin: Duration.Duration
  /** How long one attempt may take. After that its outcome is uncertain. */
  readonly attemptTimeout: Duration.Duration
  /** The first pause after an attempt that sent nothing. It doubles with each. */
  readonly retryDelay: Duration.Duration
  /** Age at which a claim is stale. Longer than `sendWithin` and `attemptTimeout` together. */
  readonly rescueAfter: Duration.Duration
  readonly readTimeout: Duration.Duration
  readonly readSchedule: ReadSchedule
  /** How long an operation waits whose grant, client or provider connection is not good, before it is looked at again. */
  readonly idle: Duration.Duration
  /** How long to wait for work that nobody announced. */
  readonly pollInterval: Duration.Duration
  /** How often stale claims are looked for. */
  readonly rescueInterval: Duration.Duration
  /** How long running submissions may go on once the worker is asked to stop. */
  readonly drainTimeout: Duration.Duration
  /** How long one statement may take before its outcome counts as unknown. */
  readonly storeTimeout: Duration.Duration
  /** How long a worker may take to start: on a ledger that was moved it holds everything that is accepted first. */
  readonly prepareTimeout: Duration.Duration
  /** Age in a state that puts an operation under review. Age never changes the state itself. */
  readonly reviewAfter: {
    readonly accepted: Duration.Duration
    readonly submitted: Duration.Duration
    readonly indeterminate: Duration.Duration
  }
}

/** What holds unless a layer says otherwise. */
export const defaultPolicy: SubmissionPolicyShape = {
  concurrency: 64,
  providerConcurrency: 32,
  sendWithin: Duration.seconds(30),
  attemptTimeout: Duration.seconds(30),
  retryDelay: Duration.millis(200),
  rescueAfter: Duration.seconds(90),
  readTimeout: Duration.seconds(15),
  readSchedule: { first: Duration.seconds(1), factor: 1.6, longest: Duration.hours(1), jitter: 0.2 },
  idle: Duration.seconds(30),
  pollInterval: Duration.seconds(1),
  rescueInterval: Duration.millis(500),
  drainTimeout: Duration.seconds(10),
  storeTimeout: Duration.seconds(5),
  prepareTimeout: Duration.minutes(10),
  reviewAfter: {
    accepted: Duration.hours(1),
    submitted: Duration.days(3),
    indeterminate: Duration.minutes(15)
  }
}

/** Provide `{ ...defaultPolicy, … }` to change it. Every worker on a database should have the same. */
export const SubmissionPolicy: Context.Reference<SubmissionPolicyShape> = Context.Reference(
  "financial-agents-gateway/submission/SubmissionPolicy",
  { defaultValue: () => defaultPolicy }
)

/**
 * What is wrong with a policy, or null: a claim must not be rescued while its holder may still send, and each of so many
 * providers needs a place of its own.
 */
export const validatePolicy = (policy: SubmissionPolicyShape, providers: number): string | null => {
  const spans = Object.values(policy).flatMap((value) => Duration.isDuration(value) ? [value] : [])
  if (!spans.every((span) => Duration.isFinite(span) && Duration.isPositive(span))) {
    return "every time must be finite and longer than nothing"
  }
  const longestSend = Duration.sum(policy.sendWithin, policy.attemptTimeout)
  if (!Duration.isGreaterThan(policy.rescueAfter, longestSend)) {
    return "rescueAfter must be longer than sendWithin and attemptTimeout together"
  }
  const { concurrency, providerConcurrency } = policy
  const counts = [concurrency, providerConcurrency]
  if (!counts.every((count) => Number.isInteger(count) && count > 0)) {
    return "concurrency and providerConcurrency must be whole numbers greater than 0"
  }
  return concurrency < providers
    ? `concurrency must be at least ${providers}: each of ${providers} providers needs a place`
    : null
}
