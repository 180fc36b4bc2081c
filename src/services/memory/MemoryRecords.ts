/**
 * The operations in memory, with the order of their changes.
 */
import type { Operation, OperationId } from "../../domain/Operation.ts"

/** A change of the public form gets the next position, as the triggers of PostgreSQL give it. */
export class MemoryRecords<Record extends { readonly operation: Operation }> extends Map<OperationId, Record> {
  #position = 0
  readonly #positions = new Map<OperationId, number>()

  override set(id: OperationId, record: Record): this {
    const known = this.get(id)?.operation
    const { revision, under_review } = record.operation
    if (known?.revision !== revision || known.under_review !== under_review) this.#positions.set(id, ++this.#position)
    return super.set(id, record)
  }

  /** The position of the last change of all. */
  get lastPosition(): number {
    return this.#position
  }

  /** The position of the last change of an operation; 0 for an unknown one. */
  positionOf(id: OperationId): number {
    return this.#positions.get(id) ?? 0
  }
}
