/**
 * Progress of long work on standard error: one line that redraws itself on a terminal, otherwise a line every ten seconds. It has
 * no colours. Work that ends within a second shows nothing.
 */
import * as Effect from "effect/Effect"

/** What the work is, and how far it goes. The texts are ASCII, so that each character takes one column. */
interface ProgressOptions {
  readonly label: string
  /** What is counted, such as `lines`. */
  readonly unit: string
  /** Null: unknown. */
  readonly total: number | null
}

/** How far the work is. */
export interface ProgressNow extends ProgressOptions {
  readonly done: number
  /** Since the start of the work. */
  readonly seconds: number
  /** The present step. Null: none. */
  readonly step: string | null
}

/** Work that shows its progress. */
export interface Progress {
  /** Sets how many are done, the total if it is known only now, and the present step. */
  readonly update: (done: number, more?: { readonly total?: number; readonly step?: string }) => void
  /** Adds to what is done, 1 by default. */
  readonly advance: (count?: number) => void
}

/** Standard error, or a stream like it. */
interface ProgressStream {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly write: (text: string) => unknown
}

const cells = 20

const duration = (seconds: number): string => {
  const whole = Math.ceil(seconds)
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${s} s` : `${s} s`
}

const count = (value: number): string => Math.floor(value).toLocaleString("en")

/** The parts of a line, and how soon each is left out when there is no room: the highest first. */
const partsOf = (
  { done, label, seconds, step, total, unit }: ProgressNow
): ReadonlyArray<readonly [string, number]> => {
  const share = total === null || total <= 0 ? null : Math.min(1, done / total)
  const filled = Math.floor((share ?? 0) * cells)
  const rate = seconds > 0 ? done / seconds : 0
  const parts: ReadonlyArray<readonly [string | null, number]> = [
    [label, 0],
    [share === null ? null : `[${"#".repeat(filled)}${"-".repeat(cells - filled)}]`, 4],
    [share === null ? null : `${Math.floor(share * 100)} %`, 1],
    [`${count(done)}${total === null ? "" : ` of ${count(total)}`} ${unit}`, 2],
    [rate < 1 ? null : `${count(rate)}/s`, 5],
    [share === null || done <= 0 || share === 1 ? null : `${duration((total! - done) / rate)} left`, 3],
    [step, 6]
  ]
  return parts.flatMap(([text, rank]) => text === null ? [] : [[text, rank] as const])
}

/** One line, at most `columns` characters long. If there is no room, it loses the step, the rate, the bar and the rest of the time. */
export const renderProgress = (now: ProgressNow, columns: number): string => {
  let parts = partsOf(now)
  const line = () => parts.map(([text]) => text).join("  ")
  while (parts.length > 1 && line().length > columns) {
    const last = Math.max(...parts.map(([, rank]) => rank))
    parts = parts.filter(([, rank]) => rank !== last)
  }
  return line().slice(0, Math.max(0, columns))
}

/** Erases the line of the cursor. */
const erase = "\r\u001B[K"

/** Milliseconds: before the first line, between drawings, and between lines without a terminal. */
const [patience, drawing, logging] = [1000, 100, 10_000]

/** The bar on the terminal. */
let shown: { readonly clear: () => void; readonly draw: () => void } | null = null

/** Runs an effect that writes lines to the terminal, above the bar if there is one. */
export const aboveBar = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    shown?.clear()
    return Effect.ensuring(effect, Effect.sync(() => shown?.draw()))
  })

const isTerminal = (stream: ProgressStream, environment: NodeJS.ProcessEnv): boolean =>
  stream.isTTY === true && environment["TERM"] !== "dumb" && (environment["CI"] ?? "") === ""

/** Starts to show progress. `end` removes the bar: call it however the work ends. */
export const startProgress = (
  options: ProgressOptions,
  stream: ProgressStream = process.stderr,
  environment: NodeJS.ProcessEnv = process.env
): Progress & { readonly end: () => void } => {
  const startedAt = performance.now()
  const onTerminal = isTerminal(stream, environment)
  const now = { ...options, done: 0, step: null as string | null }
  let next = startedAt + (onTerminal ? patience : logging)
  let isDrawn = false
  const line = (columns: number) => renderProgress({ ...now, seconds: (performance.now() - startedAt) / 1000 }, columns)
  const draw = () => {
    // The last column stays free: some terminals wrap there. The cursor returns, so that a line of others begins at the left.
    stream.write(`${erase}${line((stream.columns || 80) - 1)}\r`)
    isDrawn = true
  }
  const clear = () => {
    if (isDrawn) stream.write(erase)
    isDrawn = false
  }
  const show = () => {
    const time = performance.now()
    if (time < next) return
    next = time + (onTerminal ? drawing : logging)
    if (onTerminal) draw()
    else stream.write(`${line(200)}\n`)
  }
  // Work that keeps the process busy gets no timer; there `update` draws.
  const timer = setInterval(show, drawing).unref()
  if (onTerminal) shown = { clear, draw: () => performance.now() >= startedAt + patience ? draw() : undefined }
  const update: Progress["update"] = (done, { step, total } = {}) => {
    now.done = done
    if (total !== undefined) now.total = total
    if (step !== undefined) now.step = step
    show()
  }
  return {
    update,
    advance: (count = 1) => update(now.done + count),
    end: () => {
      clearInterval(timer)
      clear()
      shown = null
    }
  }
}

/** Shows the progress of an effect. The bar disappears when the effect ends, fails or is interrupted. */
export const withProgress = <A, E, R>(
  options: ProgressOptions,
  use: (progress: Progress) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => startProgress(options)),
    use,
    (progress) => Effect.sync(progress.end)
  )
