/**
 * A TCP proxy that fails like a network: bytes arrive late, never, in one direction only or in part, and connections
 * are reset.
 */
import * as net from "node:net"

export const networkFaults = ["latency", "reset", "black_hole", "forgotten", "stall", "half_open", "cut"] as const
export type NetworkFault = typeof networkFaults[number]

/** The target of the connections. */
export type Target = net.NetConnectOpts

/** One direction of a connection. Under every fault bytes keep their order, and none is missing in between. */
class Direction {
  private mode: "open" | "held" | "lost" = "open"
  private isCutting = false
  private readonly from: net.Socket
  private readonly to: net.Socket
  private readonly reset: () => void
  private readonly latency: () => number
  /** Bytes or, as null, the end, with the time of arrival. */
  private queue: Array<{ readonly at: number; readonly item: Buffer | null }> = []
  private timer: NodeJS.Timeout | null = null
  private hasEnded = false

  constructor(
    from: net.Socket,
    to: net.Socket,
    options: { readonly reset: () => void; readonly latency: () => number }
  ) {
    this.from = from
    this.to = to
    this.reset = options.reset
    this.latency = options.latency
    from.on("data", (chunk: Buffer) => this.take(chunk))
    // Bytes of a sender that ended still arrive, also if they are delayed here.
    from.on("end", () => this.end())
    from.on("close", () => this.end())
    to.on("drain", () => from.resume())
  }

  /** From now on no byte arrives. */
  lose(): void {
    this.mode = "lost"
    this.queue = []
  }

  /** From now on no byte arrives until the release. */
  hold(): void {
    if (this.mode === "open") this.mode = "held"
  }

  release(): void {
    if (this.mode === "held") this.mode = "open"
    this.deliver()
  }

  /** The first half of the next bytes arrives, and then the connection is reset. */
  cut(): void {
    this.isCutting = true
  }

  private end(): void {
    if (!this.hasEnded) this.take(null)
    this.hasEnded = true
  }

  private take(item: Buffer | null): void {
    if (this.mode === "lost") return
    this.queue.push({ at: Math.max(this.queue.at(-1)?.at ?? 0, Date.now() + this.latency()), item })
    this.deliver()
  }

  private deliver(): void {
    while (this.mode === "open" && this.timer === null && this.queue.length > 0) {
      const wait = this.queue[0]!.at - Date.now()
      if (wait <= 0) {
        this.send(this.queue.shift()!.item)
        continue
      }
      this.timer = setTimeout(() => {
        this.timer = null
        this.deliver()
      }, wait)
    }
  }

  private send(item: Buffer | null): void {
    if (this.to.destroyed) return
    if (item === null) this.to.end()
    else if (this.isCutting) {
      this.lose()
      this.to.write(item.subarray(0, item.length >> 1), this.reset)
    } else if (!this.to.write(item)) this.from.pause()
  }
}

const hangUp = (socket: net.Socket): void => {
  const isEnding = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
  // Unix sockets cannot be reset.
  if (socket.remoteFamily === undefined) socket.destroy()
  // Node cannot reset while it sends the end: the socket would keep this process alive for ever.
  else if (isEnding) socket.once("finish", () => socket.resetAndDestroy())
  else socket.resetAndDestroy()
}

/** One connection and its other half. */
class Pair {
  readonly isOver: () => boolean
  private readonly up: Direction
  private readonly down: Direction
  private readonly client: net.Socket
  private readonly server: net.Socket

  constructor(client: net.Socket, server: net.Socket, latency: () => number) {
    this.client = client
    this.server = server
    const options = { reset: () => this.reset(), latency }
    this.up = new Direction(client, server, options)
    this.down = new Direction(server, client, options)
    this.isOver = () => client.destroyed && server.destroyed
    client.on("error", () => {})
    server.on("error", () => hangUp(client))
  }

  reset(): void {
    hangUp(this.client)
    hangUp(this.server)
  }

  strike(fault: NetworkFault, milliseconds: number): void {
    const later = (after: () => void) => void setTimeout(after, milliseconds).unref()
    switch (fault) {
      case "latency":
        return
      case "reset":
        return this.reset()
      case "cut":
        return this.down.cut()
      case "black_hole":
      case "forgotten":
        this.up.lose()
        this.down.lose()
        return later(() => this.reset())
      case "half_open":
        this.down.lose()
        return later(() => this.reset())
      case "stall":
        this.up.hold()
        this.down.hold()
        return later(() => {
          this.up.release()
          this.down.release()
        })
    }
  }
}

export class Proxy {
  /** The target of new connections. */
  target: Target
  /** Gets every byte to the target. One watcher for each connection. */
  private readonly watch: () => (chunk: Buffer) => void
  private readonly server: net.Server
  private readonly pairs = new Set<Pair>()
  private latency = 0
  /** New connections get no answer until then. */
  private darkUntil = 0

  constructor(target: Target, watch: () => (chunk: Buffer) => void = () => () => {}) {
    this.target = target
    this.watch = watch
    this.server = net.createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.connect(client))
  }

  /** Resolves to the port, on 127.0.0.1. */
  readonly listen = (): Promise<number> =>
    new Promise((resolve, reject) => {
      this.server.once("error", reject)
      this.server.listen(0, "127.0.0.1", () => resolve((this.server.address() as net.AddressInfo).port))
    })

  close(): void {
    this.server.close()
    for (const pair of this.pairs) pair.reset()
  }

  /**
   * Strikes every open connection, for this many milliseconds if the fault lasts. False if there was no connection.
   * In a black hole new connections get no answer either; a firewall that dropped the old ones lets new ones pass.
   */
  strike(fault: NetworkFault, milliseconds: number): boolean {
    if (this.pairs.size === 0) return false
    if (fault === "latency") this.delay(milliseconds)
    if (fault === "black_hole") this.darkUntil = Date.now() + milliseconds
    for (const pair of this.pairs) pair.strike(fault, milliseconds)
    return true
  }

  /** Every chunk takes up to 150 ms longer, in both directions. */
  private delay(milliseconds: number): void {
    this.latency++
    setTimeout(() => this.latency--, milliseconds)
  }

  private connect(client: net.Socket): void {
    const server = net.connect({ ...this.target, allowHalfOpen: true })
    server.setNoDelay(true)
    client.on("data", this.watch())
    const pair = new Pair(client, server, () => this.latency > 0 ? 20 + Math.random() * 130 : 0)
    this.pairs.add(pair)
    const dark = this.darkUntil - Date.now()
    if (dark > 0) pair.strike("black_hole", dark)
    const forget = () => {
      if (pair.isOver()) this.pairs.delete(pair)
    }
    client.once("close", forget)
    server.once("close", forget)
  }
}

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
