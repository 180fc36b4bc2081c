/**
 * How commands and console list operations: a list by payee tells who was paid, so the terms of its operations are shown, and that is recorded.
 */
import * as Effect from "effect/Effect"
import type { ActingOperator, OperationListQuery, OperatorPage } from "../../domain/operators/OperatorView.ts"
import { OperationSearch } from "./OperationSearch.ts"
import { OperatorActions } from "./OperatorActions.ts"

/** Makes `OperationSearch.list` for an operator. By payee it shows nothing that `OperatorActions.showTerms` did not record. */
export const makeListRecorded = Effect.gen(function*() {
  const { list } = yield* OperationSearch
  const { showTerms } = yield* OperatorActions
  return Effect.fnUntraced(function*(query: OperationListQuery, operator: ActingOperator) {
    const page = yield* list(query)
    if (query.payee === undefined || page.operations.length === 0) return page
    const shown = yield* showTerms(page.operations.map(({ operation }) => operation.id), operator)
    const operations = page.operations.map((found) => ({
      ...found,
      terms: shown.get(found.operation.id) ?? found.terms
    }))
    return { ...page, operations } satisfies OperatorPage
  })
})
