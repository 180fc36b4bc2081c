/**
 * The URIs of operations as resources: `operation://{id}`.
 */
import { isOperationId, type OperationId } from "../domain/Operation.ts"

const prefix = "operation://"

/** The URI of an operation. */
export const uriOfOperation = (id: OperationId): string => prefix + id

/** The id in the URI of an operation; null for any other URI. */
export const operationOfUri = (uri: string): OperationId | null => {
  if (!uri.startsWith(prefix)) return null
  const id = uri.slice(prefix.length)
  return isOperationId(id) ? id : null
}
