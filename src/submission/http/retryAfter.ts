/**
 * How long a provider asks to send nothing: the header field `Retry-After` of 429 and 503 (RFC 9110 §10.2.3, RFC 6585 §4).
 */
import * as Duration from "effect/Duration"
import type * as Headers from "effect/http/Headers"
import { longestRetryAfter } from "../../domain/ProviderLimit.ts"

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** The three forms of an HTTP-date (RFC 9110 §5.6.7). The last two are obsolete, and a recipient must accept them. */
const forms = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/u,
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/u,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/u
]

/** Milliseconds since 1970; null if the text is no HTTP-date. `now` decides about the century of a year of two digits. */
const parseDate = (text: string, now: number): number | null => {
  for (const form of forms) {
    const { day, month, time, year } = form.exec(text)?.groups ?? {}
    if (day === undefined || month === undefined || time === undefined || year === undefined) continue
    const [hours, minutes, seconds] = time.split(":").map(Number) as [number, number, number]
    const at = (fullYear: number) => Date.UTC(fullYear, months.indexOf(month), Number(day), hours, minutes, seconds)
    if (!months.includes(month) || Number(day) > 31 || hours > 23 || minutes > 59 || seconds > 60) return null
    if (year.length === 4) return at(Number(year))
    const thisYear = new Date(now).getUTCFullYear()
    const fullYear = thisYear - thisYear % 100 + Number(year)
    return at(fullYear > thisYear + 50 ? fullYear - 100 : fullYear)
  }
  return null
}

/**
 * The delay of an answer with 429 or 503. A date counts from `Date` of the answer, or else from `now` in milliseconds since
 * 1970. The longest delay is 5 minutes. Undefined without the field, with an invalid one, and without a delay.
 */
export const retryAfterOf = (
  { headers, status }: { readonly headers: Headers.Headers; readonly status: number },
  now: number
): Duration.Duration | undefined => {
  const text = status === 429 || status === 503 ? headers["retry-after"]?.trim() : undefined
  if (text === undefined) return undefined
  const sentAt = parseDate(headers["date"]?.trim() ?? "", now) ?? now
  const until = /^\d+$/u.test(text) ? sentAt + Number(text) * 1000 : parseDate(text, now)
  if (until === null || !(until > sentAt)) return undefined
  return Duration.millis(Math.min(until - sentAt, Duration.toMillis(longestRetryAfter)))
}

/** The delay as a member, which is left out without one. */
export const withRetryAfter = (retryAfter: Duration.Duration | undefined) =>
  retryAfter === undefined ? {} : { retryAfter }
