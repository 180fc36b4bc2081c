import type { OperationId } from "../../domain/Operation.ts"

/**
 * The first record of each operation, with its place in the list. One statement moves an operation once, and the order in which it
 * would come to two records of the same operation is not defined.
 */
export const firstOfEach = <A extends { readonly id: OperationId }>(
  records: ReadonlyArray<A>
): ReadonlyArray<readonly [record: A, place: number]> => {
  const seen = new Set<OperationId>()
  return records.flatMap((record, place) => {
    if (seen.has(record.id)) return []
    seen.add(record.id)
    return [[record, place] as const]
  })
}
