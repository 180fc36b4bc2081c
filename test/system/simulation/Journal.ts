/** The operations of a ledger with every change, so that a failover can lose the last changes. */
import type { OperationId } from "../../../src/domain/Operation.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryLedger.ts"
import { MemoryRecords } from "../../../src/services/memory/MemoryRecords.ts"

type Commit = (before: MemoryRecord | undefined, after: MemoryRecord) => void

interface Entry {
  readonly at: number
  readonly id: OperationId
  readonly before: MemoryRecord | undefined
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
    this.#entries.push({ at: this.#now(), id, before })
    super.set(id, record)
    this.#committed(before, record)
    return this
  }

  /** Undoes every change committed since then, and returns the earlier records. */
  forgetSince(instant: number): ReadonlyArray<Entry> {
    const index = this.#entries.findIndex(({ at }) => at >= instant)
    if (index < 0) return []
    const forgotten = this.#entries.splice(index).toReversed()
    for (const { before, id } of forgotten) {
      if (before === undefined) this.delete(id)
      else super.set(id, before)
    }
    return forgotten
  }
}
