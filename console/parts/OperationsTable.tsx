import type { Summary } from "../../src/operator/console/ConsoleApi.ts"
import { to } from "../data/route.ts"
import { OperationBadges } from "./OperationBadges.tsx"
import { TermsText, useTerms } from "./Terms.tsx"
import { Age, Time } from "./Time.tsx"

/** What happens next, when, and why: first what differs from row to row. Of a claim: when it is rescued. Of a settled operation: nothing. */
const NextStep = ({ summary: { next: { action, at, by, reason }, operation, schedule } }: {
  readonly summary: Summary
}) => {
  if (by === "none") return null
  const rescue = operation.state === "submitting" && schedule.return_reason === null ? schedule.due_at : null
  return (
    <span title={`${action} ${reason}`}>
      {rescue !== null
        ? (
          <>
            Rescue <Time at={rescue} />.
          </>
        )
        : at !== null && (
          <>
            <Time at={at} />:
          </>
        )} {action} <span class="secondary">{reason}</span>
    </span>
  )
}

const Row = ({ summary, terms }: { readonly summary: Summary; readonly terms: Summary["terms"] }) => {
  const { client_id, idempotency_key, operation, provider, resource_owner } = summary
  return (
    <tr role="row">
      <td role="cell" class="cell-operation">
        <a href={to(["operations", operation.id])}>{operation.type}</a>
        {terms !== null && <TermsText terms={terms} />}
      </td>
      <td role="cell" class="id" title={`${idempotency_key}, the key of ${operation.id}`}>{idempotency_key}</td>
      <td role="cell" class="cell-state">
        <OperationBadges summary={summary} />
      </td>
      <td role="cell" title={`${provider}, ${client_id}, ${resource_owner}`}>
        <span>{provider}</span>
        <span class="secondary">{client_id} · {resource_owner}</span>
      </td>
      <td role="cell" class="cell-next">
        {operation.failure !== null && (
          <span title={operation.failure.message}>
            <code>{operation.failure.code}</code> {operation.failure.message}
          </span>
        )}
        <NextStep summary={summary} />
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
      <table class="operations cards" role="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">
              <span class={button === null ? undefined : "visually-hidden"}>Operation</span>
            </th>
            <th role="columnheader" scope="col">Idempotency key</th>
            <th role="columnheader" scope="col">State</th>
            <th role="columnheader" scope="col">Provider, client and owner</th>
            <th role="columnheader" scope="col">Next action and reason</th>
            <th role="columnheader" scope="col" class="number">In this state</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {operations.map((summary) => <Row key={summary.operation.id} summary={summary} terms={termsOf(summary)} />)}
        </tbody>
      </table>
    </div>
  )
}
