/**
 * What a read returns: the public form of operations as JSON text, checked against the schema, with the facts that a response needs
 * beside its body. Callers that need values ask for them.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isOperationId, Operation, OperationId } from "./Operation.ts"

/** An operation that meets the contract. */
export interface EncodedOperation {
  /** The public form, as `JSON.stringify` writes what the schema encodes. */
  readonly json: string
  readonly terminal: boolean
  readonly revision: number
  readonly under_review: boolean
  /** Milliseconds since the epoch. */
  readonly updated_at: number
  /** The operation as a value. A store may make it on demand, because a response needs the text alone. */
  readonly operation: Operation
}

/** Operations that meet the contract, in the order of a page. */
export interface EncodedOperations {
  /** The array of the operations. */
  readonly json: string
  readonly count: number
  /** The operations as values. A store may make them on demand. */
  readonly operations: ReadonlyArray<Operation>
}

/** A stored operation breaks the contract, so it is never sent. The error names only its id, if that is well-formed. */
export class MalformedOperation extends Schema.TaggedError<MalformedOperation>()("MalformedOperation", {
  id: Schema.NullOr(OperationId)
}) {
  /** The error of an operation with this id, if it is one. */
  static of(id: unknown): MalformedOperation {
    return new MalformedOperation({ id: isOperationId(id) ? id : null })
  }

  override get message() {
    return this.id === null
      ? "an operation without a valid id breaks the contract"
      : `operation ${this.id} breaks the contract`
  }
}

const encode = Schema.encodeEffect(Operation)

/** Encodes an operation by the schema of the contract. */
export const encodeOperation = (operation: Operation): Effect.Effect<EncodedOperation, MalformedOperation> =>
  Effect.mapBoth(encode(operation), {
    onFailure: () => MalformedOperation.of(operation.id),
    onSuccess: (encoded) => ({
      json: JSON.stringify(encoded),
      terminal: operation.terminal,
      revision: operation.revision,
      under_review: operation.under_review,
      updated_at: operation.updated_at.epochMilliseconds,
      operation
    })
  })

/** Encodes operations by the schema of the contract. */
export const encodeOperations = (
  operations: ReadonlyArray<Operation>
): Effect.Effect<EncodedOperations, MalformedOperation> =>
  Effect.map(
    Effect.forEach(operations, encodeOperation),
    (encoded) => ({ json: `[${encoded.map(({ json }) => json).join(",")}]`, count: encoded.length, operations })
  )
