/** The deadline of the first byte, between an adapter and its HTTP client: the client asks it before that byte leaves. */
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"

/** The deadline for an HTTP client that controls when it writes the first byte, such as `ProviderHttpClient`. */
export interface SendDeadline {
  /** Declares that the client calls `pass` before the first byte leaves. Until then, no byte has left. */
  readonly watch: () => void
  /**
   * Whether the first byte may leave now. Call it in the turn of the event loop that writes the byte. It returns true at
   * most once, so that nothing between the adapter and the network can send twice.
   */
  readonly pass: () => boolean
}

/**
 * The deadline of the current request; null outside of `exchange`. With a client that does not use the deadline, the adapter
 * judges failures by their kind alone, which proves less often that nothing was sent.
 */
export const SendDeadline: Context.Reference<SendDeadline | null> = Context.Reference<SendDeadline | null>(
  "financial-agents-gateway/submission/http/SendDeadline",
  { defaultValue: () => null }
)

export interface ClosableSendDeadline extends SendDeadline {
  /**
   * Ends the time to send for good. `at_rest`: no byte has left, and none will. `gone`: bytes may have left. `unwatched`: the
   * client does not use the deadline. `late`: no byte has left, because `notAfter` had passed.
   */
  readonly close: () => "at_rest" | "late" | "gone" | "unwatched"
}

/** No byte may leave at or after `notAfter`, in milliseconds of the clock; null sets no limit. */
export const makeSendDeadline = (clock: Clock.Clock, notAfter: number | null): ClosableSendDeadline => {
  let state: ReturnType<ClosableSendDeadline["close"]> | "waiting" = "unwatched"
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
