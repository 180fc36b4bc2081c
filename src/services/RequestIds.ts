/** The ids of requests: each response, each of its log lines and its trace span has one. */
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { isRequestId, type RequestId } from "../domain/RequestId.ts"

/** Ids that are made at once. A call of the system's generator costs more than all the rest of an id. */
const batch = 512

const makeNext = (random: SecureRandom.SecureRandom["Service"]): () => RequestId => {
  let bytes: Uint8Array = new Uint8Array(0)
  let used = 0
  const { uuidV4 } = SecureRandom.make((size) => {
    if (used + size > bytes.length) {
      bytes = Effect.runSync(random.randomBytes(size * batch))
      used = 0
    }
    used += size
    return bytes.subarray(used - size, used)
  })
  const fill = Effect.replicateEffect(uuidV4(), batch)
  let ids: Array<string> = []
  return () => {
    if (ids.length === 0) ids = Effect.runSync(fill)
    return ids.pop() as RequestId
  }
}

/**
 * Gives each request its id (specification, "Endpoints"): the one that arrived in `X-Request-Id`, if it is safe, else a new one.
 * The function is no effect: the listener answers bytes that are no request where no effect runs.
 */
export class RequestIds extends Context.Service<RequestIds, {
  readonly of: (received: string | undefined) => RequestId
}>()("financial-agents-gateway/services/RequestIds") {
  /** New ids are UUIDs of version 4. */
  static readonly layer: Layer.Layer<RequestIds, never, SecureRandom.SecureRandom> = Layer.effect(
    RequestIds,
    Effect.map(SecureRandom.SecureRandom, (random) => of(makeNext(random)))
  )

  /** New ids are `request-1`, `request-2` and so on, for tests. */
  static readonly layerSequential: Layer.Layer<RequestIds> = Layer.sync(RequestIds, () => {
    let count = 0
    return of(() => `request-${++count}` as RequestId)
  })
}

const of = (next: () => RequestId): RequestIds["Service"] => ({
  of: (received) => isRequestId(received) ? received : next()
})
