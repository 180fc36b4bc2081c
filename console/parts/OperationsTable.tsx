import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { to } from "../data/route.ts"
import { NextStep } from "./NextStep.tsx"
import { OperationBadges } from "./OperationBadges.tsx"
import { TermsText, useTerms } from "./Terms.tsx"
import { Age } from "./Time.tsx"

const Row = ({ summary, terms }: { readonly summary: Summary; readonly terms: Summary["terms"] }) => {
  const { client_id, operation, provider, resource_owner } = summary
  return (
    <tr role="row">
      <td role="cell" class="cell-operation">
        <a href={to(["operations", operation.id])}>{operation.type}</a>
        {terms === null
          ? <code class="id">{operation.id}</code>
          : (
            <>
              <TermsText terms={terms} />
              <code class="id" title={`Idempotency key of ${operation.id}`}>{summary.idempotency_key}</code>
            </>
          )}
      </td>
      <td role="cell">
        <OperationBadges summary={summary} />
      </td>
      <td role="cell" class="cell-parties" title={`${provider}, ${client_id}, ${resource_owner}`}>
        <span>{provider}</span>
        <span class="secondary">{client_id} · {resource_owner}</span>
      </td>
      <td role="cell" class="cell-next">
        {operation.failure !== null && <code>{operation.failure.code}</code>}
        <NextStep next={summary.next} />
      </td>
      <td role="cell" class="number" data-label="In this state for">
        <Age since={operation.updated_at} />
      </td>
    </tr>
  )
}

/** Operations, one a row. On a narrow screen each row is a card; the roles keep it a table for screen readers. */
export const OperationsTable = ({ caption, operations }: {
  readonly caption: string
  readonly operations: ReadonlyArray<Summary>
}) => {
  const { button, termsOf } = useTerms(operations)
  return (
    <div class="operations-list">
      {button}
      <table class="operations" role="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col" class="cell-operation">Operation</th>
            <th role="columnheader" scope="col" class="cell-state">State</th>
            <th role="columnheader" scope="col" class="cell-parties">Provider, client and owner</th>
            <th role="columnheader" scope="col">Reason and next action</th>
            <th role="columnheader" scope="col" class="number cell-age">In this state</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {operations.map((summary) => <Row key={summary.operation.id} summary={summary} terms={termsOf(summary)} />)}
        </tbody>
      </table>
    </div>
  )
}
