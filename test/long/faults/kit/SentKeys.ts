/** The idempotency keys that a proxy sees. */

const keyHeader = /idempotency-key: ([^\r\n]+)\r\n/giu

/**
 * Counts how often each idempotency key is sent, received or not. A request that the provider answered 429 does not count: the provider did
 * nothing, and it may be sent again.
 */
export class SentKeys {
  readonly counts = new Map<string, number>()

  /** A watcher for one connection. */
  readonly watch = (onAnswer: (see: (bytes: Buffer) => void) => void) => {
    let rest = ""
    /** Of the request under way. Null: it has none, or is answered. */
    let asked: string | null = null
    onAnswer((bytes) => {
      if (asked !== null && bytes.toString("latin1", 0, 12) === "HTTP/1.1 429") {
        this.counts.set(asked, this.counts.get(asked)! - 1)
      }
      asked = null
    })
    return (chunk: Buffer): void => {
      const text = rest + chunk.toString("latin1")
      let end = 0
      for (const match of text.matchAll(keyHeader)) {
        const key = match[1]!
        this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
        asked = key
        end = match.index + match[0].length
      }
      // A header may be cut in two, but is never longer than this.
      rest = text.slice(Math.max(end, text.length - 128))
    }
  }
}
