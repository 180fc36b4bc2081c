/**
 * When a person can have asked a provider about an operation. The ledgers, the commands and the page of the console share this rule, so
 * the file imports nothing. The triggers `operations_evidence_time`, `operations_evidence_sendable`, `operations_evidence_unfenced` and
 * `operations_evidence_unanswered` have it, too.
 */

/** Milliseconds by which the clock of a person may differ from that of the ledger. People also leave the seconds out. */
const tolerance = 60_000

/** What decides. Instants are milliseconds since the epoch. */
interface AskedFacts {
  readonly created_at: number
  readonly now: number
  /** The operation becomes `failed`, and a request may leave until this instant. Null: it does not, or no request can. */
  readonly sendable_until: number | null
  /** The operation becomes final, and its last fence has ended at this instant, at the latest. Null: it does not, or none began. */
  readonly fencing_until: number | null
  /** The operation becomes `failed`. */
  readonly isFailure: boolean
}

const iso = (instant: number) => new Date(instant).toISOString()

/**
 * Why an operator cannot have asked at this instant, or why the answer proves nothing: all reasons. Null: it counts. `asked_at` is an RFC
 * 3339 date-time.
 */
export const validateAskedAt = (
  asked_at: string,
  { created_at, fencing_until, isFailure, now, sendable_until }: AskedFacts
): string | null => {
  const at = Date.parse(asked_at)
  const faults: Array<string> = []
  if (at < created_at - tolerance) faults.push(`before the creation of the operation at ${iso(created_at)}`)
  // A failure permits no difference: an answer from before the last send would pass as one from after it.
  if (at > now + (isFailure ? 0 : tolerance)) {
    faults.push(`in the future: it is ${iso(now)} now`)
  }
  // A clock that is ahead dates an earlier answer so. Asking once more is cheap, and a payment that is carried out after it failed is not.
  if (sendable_until !== null && at < sendable_until + tolerance) {
    faults.push(
      `less than a minute after ${
        iso(sendable_until)
      }, until which the request could be sent: the provider may have received it after its answer. `
        + "Ask once more after that minute, and record that answer"
    )
  }
  if (isFailure && fencing_until !== null && at < fencing_until + tolerance && fencing_until <= now) {
    faults.push(
      `less than a minute after ${iso(fencing_until)}, until which the order of a fence could be sent. `
        + "Cancel the order that waits under this key there, ask once more after that minute, and record that answer"
    )
  }
  if (faults.length > 0) return `asked_at ${iso(at)} is ${faults.join("; it is ")}`
  if (fencing_until !== null && now < fencing_until) {
    return `a fence may be under way until ${iso(fencing_until)}, and it is ${iso(now)} now. Try again after that`
  }
  return null
}
