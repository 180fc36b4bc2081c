/** Numbers, times and names, as people read them. */

const numbers = new Intl.NumberFormat("en")

/** 1234567 as 1,234,567. */
export const formatCount = (count: number): string => numbers.format(count)

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000]
] as const

/** A duration in milliseconds by its largest unit, with the next one where it matters: `2 d 4 h`, `3 h 12 min`, `45 s`. */
export const formatDuration = (milliseconds: number): string => {
  const at = units.findIndex(([, size]) => milliseconds >= size)
  if (at === -1) return "0 s"
  const [name, size] = units[at]!
  const whole = Math.floor(milliseconds / size)
  const next = units[at + 1]
  if (next === undefined || name === "min" || whole >= 10) return `${whole} ${name}`
  const rest = Math.floor((milliseconds % size) / next[1])
  return rest === 0 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${next[0]}`
}

/** How far an instant is from now: `3 min ago`, `in 5 s`, `now`. */
export const formatRelative = (instant: number, now: number): string => {
  const distance = now - instant
  if (Math.abs(distance) < 1000) return "now"
  return distance > 0 ? `${formatDuration(distance)} ago` : `in ${formatDuration(-distance)}`
}

/** `2026-11-22 18:05:09 UTC`. */
export const formatInstant = (instant: number | string): string =>
  new Date(instant).toISOString().slice(0, 19).replace("T", " ") + " UTC"

/** `under_review` as `Under review`. */
export const formatName = (name: string): string => {
  const words = name.replaceAll("_", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** `1 operation`, `2 operations`. */
export const formatOperations = (count: number): string =>
  `${formatCount(count)} ${count === 1 ? "operation" : "operations"}`

/** What is used of an amount, by what remains of it, and its share in percent. Both are decimal text. */
export const formatUsed = (amount: string, remaining: string): { readonly used: string; readonly percent: number } => {
  const digits = Math.max(...[amount, remaining].map((text) => text.split(".")[1]?.length ?? 0))
  const unitsOf = (text: string) => {
    const [whole = "", fraction = ""] = text.split(".")
    return BigInt(whole + fraction.padEnd(digits, "0"))
  }
  const used = unitsOf(amount) - unitsOf(remaining)
  const text = String(used).padStart(digits + 1, "0")
  return {
    used: digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`,
    percent: Number(used * 1000n / unitsOf(amount)) / 10
  }
}
