/** The requests of a process that wait for a change. */
import type { LedgerChange } from "../../domain/ChangeFeed.ts"
import type { ClientId, GrantId, GrantIdentity, PairwiseSubject } from "../../domain/Grant.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"

/** Which changes a request waits for, as text. */
type Topic = string

/** The changes of one operation. */
export const topicOfOperation = (id: OperationId): Topic => `operation ${id}`

interface Owner {
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
}

/** The changes of all operations of a client and subject, whose names have no blanks. */
export const topicOfOwner = ({ client_id, subject }: Owner): Topic => `owner ${client_id} ${subject}`

/** A request that waits. */
export interface Waiter {
  readonly topic: Topic
  /** The grant that will read the answer. */
  readonly grant: GrantIdentity
  /** Whether a change to this form may be what the request waits for. Without it, every change of the topic is. */
  readonly concerns?: ((operation: Operation) => boolean) | undefined
  /** Tells the request to read again. It may be called at any time, and without need. */
  readonly wake: () => void
}

/** Keeps an entry for each waiting request, and none for others. */
export class Waiters {
  readonly #ofTopic = new Map<Topic, Set<Waiter>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  add(waiter: Waiter): void {
    const others = this.#ofTopic.get(waiter.topic)
    if (others === undefined) this.#ofTopic.set(waiter.topic, new Set([waiter]))
    else others.add(waiter)
    this.#size++
  }

  remove(waiter: Waiter): void {
    const all = this.#ofTopic.get(waiter.topic)
    if (all === undefined || !all.delete(waiter)) return
    if (all.size === 0) this.#ofTopic.delete(waiter.topic)
    this.#size--
  }

  /** The grants of the waiters, each once. */
  grants(): ReadonlyArray<GrantIdentity> {
    const grants = new Map<string, GrantIdentity>()
    for (const { grant } of this.#all()) {
      grants.set(`${grant.grant_id} ${grant.client_id} ${grant.subject}`, grant)
    }
    return [...grants.values()]
  }

  /** Wakes the waiters for these changes. */
  wakeFor(changes: ReadonlyArray<LedgerChange>): void {
    const ofTopic = new Map<Topic, Array<Operation>>()
    for (const change of changes) {
      for (const topic of [topicOfOperation(change.operation.id), topicOfOwner(change)]) {
        const others = ofTopic.get(topic)
        if (others !== undefined) others.push(change.operation)
        else if (this.#ofTopic.has(topic)) ofTopic.set(topic, [change.operation])
      }
    }
    for (const [topic, operations] of ofTopic) {
      const waiters = [...this.#ofTopic.get(topic) ?? []]
      wakeEach(waiters.filter(({ concerns }) => concerns === undefined || operations.some(concerns)))
    }
  }

  /** Wakes the waiters with these grants. */
  wakeGrants(ids: ReadonlyArray<GrantId>): void {
    const found = new Set(ids)
    if (found.size > 0) wakeEach(this.#all().filter(({ grant }) => found.has(grant.grant_id)))
  }

  wakeAll(): void {
    wakeEach(this.#all())
  }

  #all(): ReadonlyArray<Waiter> {
    return [...this.#ofTopic.values()].flatMap((waiters) => [...waiters])
  }
}

const wakeEach = (waiters: Iterable<Waiter>): void => {
  for (const { wake } of waiters) wake()
}
