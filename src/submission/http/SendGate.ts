/**
 * What an HTTP client and the adapter agree on about the moment at which the first byte of a request leaves.
 */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"

/** How a client that can tell the moment takes part. `ProviderHttpClient` does. */
export interface SendGate {
  /** The client will ask before the first byte leaves: until then it is proven that none has. */
  readonly watch: () => void
  /**
   * May the first byte leave now? To be asked in the same turn of the event loop that writes it. Says yes at most once,
   * so that nothing between the adapter and the network can send twice.
   */
  readonly pass: () => boolean
}

/**
 * The gate of the request that is being sent; null when nobody cares. A client that knows nothing of it loses
 * nothing but precision: its failures are told apart by what they are.
 */
export const SendGate: Context.Reference<SendGate | null> = Context.Reference<SendGate | null>(
  "financial-agents-gateway/submission/http/SendGate",
  { defaultValue: () => null }
)

/** A gate as the adapter sees it. */
export interface ClosableSendGate extends SendGate {
  /**
   * Forbids the gate from now on. `at_rest`: no byte has left, and none will. `gone`: it may be under way.
   * `unwatched`: the client tells nothing. `late`: no byte has left, because `notAfter` had passed.
   */
  readonly close: () => "at_rest" | "late" | "gone" | "unwatched"
}

/** `notAfter` in milliseconds of the clock; null: any time will do. */
export const makeSendGate = (clock: Clock.Clock, notAfter: number | null): ClosableSendGate => {
  let state: ReturnType<ClosableSendGate["close"]> | "waiting" = "unwatched"
  return {
    watch: () => {
      if (state === "unwatched") state = "waiting"
    },
    pass: () => {
      if (state !== "waiting") return false
      state = notAfter === null || clock.currentTimeMillisUnsafe() < notAfter ? "gone" : "late"
      return state === "gone"
    },
    close: () => {
      if (state === "waiting") state = "at_rest"
      return state
    }
  }
}
