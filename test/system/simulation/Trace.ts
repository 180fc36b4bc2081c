/** The events of a run: as a hash that compares two runs, as counts, and as lines for readers on request. */

/** How often each kind of event happened. */
export type Counts = Map<string, number>

export class Trace {
  readonly counts: Counts = new Map()
  readonly lines: Array<string> = []
  readonly #isVerbose: boolean
  readonly #now: () => number
  #hash = 0x811c9dc5

  constructor(isVerbose: boolean, now: () => number) {
    this.#isVerbose = isVerbose
    this.#now = now
  }

  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, "0")
  }

  /** Adds a number to the hash. */
  mix(value: number): void {
    this.#hash = Math.imul(this.#hash ^ value, 0x01000193) ^ (this.#hash >>> 15)
  }

  count(kind: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
  }

  /** Counts an event, and records its time and its subject. */
  note(kind: string, subject: number | string | null, detail = ""): void {
    this.count(kind)
    this.mix(this.#now())
    this.#mixText(kind)
    if (typeof subject === "number") this.mix(subject)
    else if (subject !== null) this.#mixText(subject)
    this.#mixText(detail)
    if (this.#isVerbose) {
      const time = (this.#now() / 1000).toFixed(3).padStart(9)
      this.lines.push(`${time}  ${subject === null ? "" : String(subject).padEnd(5)}  ${kind}  ${detail}`.trimEnd())
    }
  }

  /** A line for readers only: not part of the hash. */
  remark(text: () => string): void {
    if (this.#isVerbose) this.lines.push(`${" ".repeat(11)}${text()}`)
  }

  #mixText(text: string): void {
    for (let i = 0; i < text.length; i++) this.mix(text.charCodeAt(i))
  }
}
