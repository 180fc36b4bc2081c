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
  /** When its time is up, in milliseconds of the monotonic clock. */
  readonly deadline: number
  /** The client whose slot the request holds. */
  client: string | null = null
  older: RunningRequest | null = null
  younger: RunningRequest | null = null

  constructor(fiber: Fiber.Fiber<unknown, unknown> | null, deadline: number) {
    this.fiber = fiber
    this.deadline = deadline
  }
}

/** The requests that run and were not interrupted. */
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

  /** Does nothing if the request is not in the list. */
  remove(request: RunningRequest): void {
    if (request.older === null) return
    request.older.younger = request.younger
    request.younger!.older = request.older
    request.older = null
    request.younger = null
    request.fiber = null
  }
}
