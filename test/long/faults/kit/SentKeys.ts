/** The idempotency keys that a proxy sees. */

const keyHeader = /idempotency-key: ([^\r\n]+)\r\n/giu

/** Counts how often each idempotency key is sent, received or not. */
export class SentKeys {
  readonly counts = new Map<string, number>()

  /** A watcher for one connection. */
  readonly watch = () => {
    let rest = ""
    return (chunk: Buffer): void => {
      const text = rest + chunk.toString("latin1")
      let end = 0
      for (const match of text.matchAll(keyHeader)) {
        const key = match[1]!
        this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
        end = match.index + match[0].length
      }
      // A header may be cut in two, but is never longer than this.
      rest = text.slice(Math.max(end, text.length - 128))
    }
  }
}
