/** The operations of a ledger with every change, so that a failover can lose the last changes. */
import type { OperationId } from "../../../src/domain/Operation.ts"
import { type MemoryRecord, MemoryRecords } from "../../../src/services/memory/MemoryRecords.ts"

type Commit = (before: MemoryRecord | undefined, after: MemoryRecord) => void

interface Entry {
  readonly at: number
  readonly undo: () => void
}

/** A table whose changes a failover may lose, together with those of the operations. */
export class JournaledMap<K, V> extends Map<K, V> {
  #note: ((undo: () => void) => void) | null = null

  /** Notes all changes from now on. */
  noteIn(journal: Journal): void {
    this.#note = (undo) => journal.note(undo)
  }

  override set(key: K, value: V): this {
    const before = this.get(key)
    this.#note?.(() => before === undefined ? super.delete(key) : super.set(key, before))
    return super.set(key, value)
  }
}

export class Journal extends MemoryRecords {
  readonly #entries: Array<Entry> = []
  readonly #now: () => number
  readonly #committed: Commit

  constructor(now: () => number, committed: Commit) {
    super()
    this.#now = now
    this.#committed = committed
  }

  override set(id: OperationId, record: MemoryRecord): this {
    const before = this.get(id)
    this.note(() => {
      if (before === undefined) this.delete(id)
      else super.set(id, before)
    })
    super.set(id, record)
    this.#committed(before, record)
    return this
  }

  /** A copy of a record of another server, which no failover loses. */
  copy(id: OperationId, record: MemoryRecord): void {
    super.set(id, record)
  }

  /** No failover loses what is there now. */
  settle(): void {
    this.#entries.length = 0
  }

  note(undo: () => void): void {
    this.#entries.push({ at: this.#now(), undo })
  }

  /** Undoes every change committed since then, and returns their number. */
  forgetSince(instant: number): number {
    const index = this.#entries.findIndex(({ at }) => at >= instant)
    if (index < 0) return 0
    const forgotten = this.#entries.splice(index).toReversed()
    for (const { undo } of forgotten) undo()
    return forgotten.length
  }
}
