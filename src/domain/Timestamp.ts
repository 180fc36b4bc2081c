/** Instants in RFC 3339: recognizing and formatting them. */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"

/** The form of the text of an instant. It does not know the lengths of months. */
export const instantPattern =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/**
 * Whether the text is an RFC 3339 date-time with upper-case `T` and `Z`, and names an existing instant. `Date.parse`
 * alone accepts February 30, and takes it for March 2.
 */
export const isInstant = (text: string): boolean =>
  instantPattern.test(text) && !Number.isNaN(Date.parse(text))
  && new Date(text.slice(0, 10)).toJSON()?.startsWith(text.slice(0, 10)) === true

/** An instant, whose other members are those of Effect's. */
class Instant {
  readonly epochMilliseconds: number

  constructor(epochMilliseconds: number) {
    this.epochMilliseconds = epochMilliseconds
  }
}
Object.setPrototypeOf(Instant.prototype, Object.getPrototypeOf(DateTime.makeUnsafe(0)) as object)

/** The last instant that `Date` can hold, and the distance of the first one. */
const maxMilliseconds = 8.64e15

/**
 * The instant of milliseconds since the epoch, at a fifteenth of the cost. Throws if there is none.
 *
 * Workaround for effect 4.1.0, `internal/dateTime.ts`: `makeUtc` defines each `partsUtc` by `Object.defineProperty`, which V8 does not
 * inline. Effect itself sets the member later. `Timestamp.test.ts` compares both.
 */
export const makeInstant = (epochMilliseconds: number): DateTime.Utc => {
  if (!(Math.abs(epochMilliseconds) <= maxMilliseconds)) throw new RangeError("Invalid time value")
  // `Date` drops fractions, and has no -0. The cast: a class has the other members, and V8 makes its objects fastest.
  return new Instant(Math.trunc(epochMilliseconds) + 0) as unknown as DateTime.Utc
}

const millisecondsADay = 86_400_000

/** The numbers below `count` in `digits` digits, each with the character that follows it. */
const parts = (count: number, digits: number, follower: string) =>
  Array.from({ length: count }, (_, n) => String(n).padStart(digits, "0") + follower)

const hours = parts(24, 2, ":")
const minutes = parts(60, 2, ":")
const seconds = parts(60, 2, ".")
const milliseconds = parts(1000, 3, "Z")

/** Cache of dates, such as `2026-01-31T`, by day. It is bounded, because a client may name any day. */
const dates = new Map<number, string>()
const maxDates = 1024

const dateOf = (day: number): string => {
  const known = dates.get(day)
  if (known !== undefined) return known
  if (dates.size === maxDates) dates.clear()
  const date = new Date(day * millisecondsADay).toISOString().slice(0, -13)
  dates.set(day, date)
  return date
}

let latest = Number.NaN
let latestText = ""

/**
 * Formats an instant in RFC 3339, UTC, with milliseconds, as `Date.prototype.toISOString` does, at a sixth of the cost. A list of
 * 100 operations holds up to 300 instants, and most operations complete with their last update.
 */
export const formatTimestamp = (epochMilliseconds: number): string => {
  if (epochMilliseconds !== latest) {
    latestText = format(epochMilliseconds)
    latest = epochMilliseconds
  }
  return latestText
}

const format = (epochMilliseconds: number): string => {
  const day = Math.floor(epochMilliseconds / millisecondsADay)
  const time = epochMilliseconds - day * millisecondsADay
  const second = Math.floor(time / 1000)
  const minute = Math.floor(second / 60)
  // The short parts first: V8 copies them, where a longer result would be a tree of parts.
  const clock = hours[Math.floor(minute / 60)]! + minutes[minute % 60]! + seconds[second % 60]!
  return dateOf(day) + (clock + milliseconds[time % 1000]!)
}

/** An instant, RFC 3339 in UTC with milliseconds on the wire. The compiled encoder of JSON reads `isPlainText`. */
export const Timestamp = Schema.String.annotate({ format: "date-time", isPlainText: true }).pipe(
  Schema.decodeTo(
    Schema.DateTimeUtc,
    new SchemaTransformation.Transformation(
      SchemaTransformation.dateTimeUtcFromString.decode,
      SchemaGetter.transform((instant: DateTime.Utc) => formatTimestamp(instant.epochMilliseconds))
    )
  )
)
