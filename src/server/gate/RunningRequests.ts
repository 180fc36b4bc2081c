/**
 * The running requests of a process, oldest first.
 *
 * They form a linked list, and a request that leaves it keeps no link. A `Map` or a `Set` with an entry for each request would
 * keep dead requests alive until V8 collects its old generation: docs/performance.md shows it.
 */
import type * as Fiber from "effect/Fiber"

/** One running request. */
export class RunningRequest {
  /** Null once the request ended, or was interrupted. */
  fiber: Fiber.Fiber<unknown, unknown> | null
  /** When its time is up, in milliseconds of the monotonic clock. It does not apply to a parked request. */
  deadline: number
  /** The client whose slot the request holds, unless it is parked. */
  client: string | null = null
  /** Ends the wait of the request. Null if it never waited. */
  wake: (() => void) | null = null
  /** Whether the request waits without a slot. */
  isParked = false
  /** Whether the request goes on in another fiber after its handler returned, as a stream does. That fiber ends it. */
  isHandedOver = false
  /** Whether the request ended. Work of it that still runs can neither wait nor take slots any more. */
  isOver = false
  older: RunningRequest | null = null
  younger: RunningRequest | null = null

  constructor(fiber: Fiber.Fiber<unknown, unknown> | null, deadline: number) {
    this.fiber = fiber
    this.deadline = deadline
  }
}

/** Requests that were not interrupted: those that run, or those that are parked. A request is in one of these lists. */
export class RunningRequests {
  /** Both ends of the ring. */
  readonly #end: RunningRequest = new RunningRequest(null, 0)

  constructor() {
    this.#end.older = this.#end
    this.#end.younger = this.#end
  }

  get oldest(): RunningRequest | null {
    return this.#end.younger === this.#end ? null : this.#end.younger
  }

  /** Adds the youngest request. */
  add(request: RunningRequest): void {
    const youngest = this.#end.older!
    request.older = youngest
    request.younger = this.#end
    youngest.younger = request
    this.#end.older = request
  }

  /** All of them, oldest first. */
  all(): ReadonlyArray<RunningRequest> {
    const requests: Array<RunningRequest> = []
    for (let at = this.oldest; at !== null && at !== this.#end; at = at.younger) requests.push(at)
    return requests
  }

  /** Does nothing if the request is in no list. */
  remove(request: RunningRequest): void {
    if (request.older === null) return
    unlink(request)
    request.fiber = null
  }

  /** Takes the request from its list into this one, as the youngest. Does nothing if it was interrupted. */
  take(request: RunningRequest): void {
    if (request.older === null) return
    unlink(request)
    this.add(request)
  }
}

const unlink = (request: RunningRequest): void => {
  request.older!.younger = request.younger
  request.younger!.older = request.older
  request.older = null
  request.younger = null
}
