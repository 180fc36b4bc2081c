/** Time limits and concurrency of worker, rescuer and reconciler. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import { defaultReviewAfter, longestSendWithin, type ReadSchedule, type ReviewTerms } from "../domain/Submission.ts"

/** Time limits and concurrency. `defaultPolicy` holds the defaults. */
export interface SubmissionPolicyShape {
  /**
   * Capacity of this process: most submissions, and most status reads, at the same time. Half of it is reserved
   * for the providers, in equal parts, so that slow providers do not delay others.
   */
  readonly concurrency: number
  /**
   * Most submissions, and most status reads, at the same time for one provider. While their outcomes are recorded, as many
   * further submissions may begin.
   */
  readonly providerConcurrency: number
  /**
   * How long after the claim bytes may leave: five minutes at most. If the provider could not be reached until then, the
   * operation fails with `provider_unreachable`; if it refused until then, with `provider_unavailable`.
   */
  readonly sendWithin: Duration.Duration
  /** How long one attempt may take. After that its outcome is `Uncertain`. */
  readonly attemptTimeout: Duration.Duration
  /** The first pause after an attempt that sent nothing. It doubles with each attempt, up to five seconds. */
  readonly retryDelay: Duration.Duration
  /** Shortest delay until a worker takes over a returned claim. It grows to a tenth of the operation's age, up to five minutes. */
  readonly returnDelay: Duration.Duration
  /** Age at which a claim is stale. Longer than `sendWithin` and `attemptTimeout` together. */
  readonly rescueAfter: Duration.Duration
  /** How long one status read may take, with all of its pages and its waits for permits. Its lease is longer. */
  readonly readTimeout: Duration.Duration
  /** When the status of an unsettled operation is read again. */
  readonly readSchedule: ReadSchedule
  /** Time between two status reads of an operation that succeeded and may be reversed (`reversibleFor` of the promises). */
  readonly readAfterSuccess: Duration.Duration
  /**
   * Shortest time between two status reads of an operation that hints ask for (`Reconciler.hint`). So a provider that repeats its
   * webhooks, or an attacker with its secret, causes few reads.
   */
  readonly hintInterval: Duration.Duration
  /**
   * Shortest delay before the next try of an operation that is not ready: its grant, client or provider connection does
   * not allow it, or the worker lacks its payload key.
   */
  readonly idle: Duration.Duration
  /** Longest pause between two polls. An announcement of accepted work ends the pause. */
  readonly pollInterval: Duration.Duration
  /** Pause between two searches for stale claims. */
  readonly rescueInterval: Duration.Duration
  /** How long attempts under way may continue after the worker is asked to stop. Then they become `indeterminate`. */
  readonly drainTimeout: Duration.Duration
  /** How long one statement may take. After that its effect counts as unknown. */
  readonly storeTimeout: Duration.Duration
  /** How long a worker may take to start. On a ledger that was moved, it first holds all accepted operations. */
  readonly prepareTimeout: Duration.Duration
  /** Age in a state that puts an operation under review. Age never changes the state itself. */
  readonly reviewAfter: ReviewTerms
  /**
   * The id of the worker, 1 to 255 characters, the same after a restart. A worker that starts with an id moves the claims of its
   * last run to `indeterminate` at once, because that process has ended. So no two running processes may have the same id.
   * Null: such claims wait until they are stale.
   */
  readonly workerId: string | null
}

/** The policy of an application that provides none. */
export const defaultPolicy: SubmissionPolicyShape = {
  concurrency: 64,
  providerConcurrency: 32,
  sendWithin: Duration.seconds(30),
  attemptTimeout: Duration.seconds(30),
  retryDelay: Duration.millis(200),
  returnDelay: Duration.seconds(5),
  rescueAfter: Duration.seconds(90),
  readTimeout: Duration.seconds(15),
  readSchedule: { first: Duration.seconds(1), factor: 1.6, longest: Duration.hours(1), jitter: 0.2 },
  readAfterSuccess: Duration.days(1),
  hintInterval: Duration.seconds(5),
  idle: Duration.seconds(30),
  pollInterval: Duration.seconds(1),
  rescueInterval: Duration.millis(500),
  drainTimeout: Duration.seconds(10),
  storeTimeout: Duration.seconds(5),
  prepareTimeout: Duration.minutes(10),
  reviewAfter: defaultReviewAfter,
  workerId: null
}

/**
 * Time limits and concurrency of this process. Provide `{ ...defaultPolicy, … }` to change it. All workers on a database
 * should have the same policy, except `workerId`.
 */
export const SubmissionPolicy: Context.Reference<SubmissionPolicyShape> = Context.Reference(
  "financial-agents-gateway/submission/SubmissionPolicy",
  { defaultValue: () => defaultPolicy }
)

const longestWorkerId = 255

const isWorkerId = (id: string) => id.length <= longestWorkerId && /^[\x20-\x7e]+$/.test(id)

/**
 * Returns the reason why a policy is invalid, or null. A claim must not become stale while its holder may still send,
 * and each provider needs some of its own. `providers` is their number.
 *
 * @internal
 */
export const validatePolicy = (policy: SubmissionPolicyShape, providers: number): string | null => {
  const spans = Object.values(policy).flatMap((value) => Duration.isDuration(value) ? [value] : [])
  if (!spans.every((span) => Duration.isFinite(span) && Duration.isPositive(span))) {
    return "every duration must be finite and longer than 0"
  }
  const longestSend = Duration.sum(policy.sendWithin, policy.attemptTimeout)
  if (!Duration.isGreaterThan(policy.rescueAfter, longestSend)) {
    return "rescueAfter must be longer than sendWithin and attemptTimeout together"
  }
  if (Duration.isGreaterThan(policy.sendWithin, longestSendWithin)) {
    return `sendWithin must be at most ${Duration.format(longestSendWithin)}`
  }
  const { concurrency, providerConcurrency } = policy
  const counts = [concurrency, providerConcurrency]
  if (!counts.every((count) => Number.isInteger(count) && count > 0)) {
    return "concurrency and providerConcurrency must be whole numbers greater than 0"
  }
  if (policy.workerId !== null && !isWorkerId(policy.workerId)) {
    return `workerId must have 1 to ${longestWorkerId} characters, all of them printable ASCII`
  }
  return concurrency < providers
    ? `concurrency must be at least ${providers}: each of ${providers} providers needs one`
    : null
}
