import type { RefObject } from "preact"
import { useRef } from "preact/hooks"
import { outcomeOf } from "../../src/domain/operators/recordTexts.ts"
import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { useAnnouncedChange } from "../data/announcements.ts"
import { formatName } from "../data/format.ts"
import { Refused } from "../data/request.ts"
import { useResource } from "../data/resource.ts"
import { to } from "../data/route.ts"
import { ActionBar } from "../operation/ActionBar.tsx"
import { BudgetsPanel } from "../operation/BudgetsPanel.tsx"
import { FactsPanel } from "../operation/FactsPanel.tsx"
import { NextPanel } from "../operation/NextPanel.tsx"
import { StandingPanel } from "../operation/StandingPanel.tsx"
import { Timeline } from "../operation/Timeline.tsx"
import { Copy } from "../parts/Copy.tsx"
import { Loaded } from "../parts/Loaded.tsx"
import { OperationBadges } from "../parts/OperationBadges.tsx"
import { Panel } from "../parts/Panel.tsx"
import { TermsText, useTerms } from "../parts/Terms.tsx"
import { Time } from "../parts/Time.tsx"
import { usePageTitle } from "./usePageTitle.ts"

const ResultBadge = ({ result }: { readonly result: string }) => {
  const outcome = outcomeOf(result)
  return outcome === "done"
    ? null
    : <span class={outcome === "refused" ? "badge badge-refused" : "badge"}>{formatName(outcome)}</span>
}

/** What operators did to the operation, the latest first, and what the ledger refused. */
const ActionRecords = ({ actions }: { readonly actions: Detail["actions"] }) => (
  <Panel title="Actions of operators">
    <ol class="records">
      {actions.toReversed().map((record) => (
        <li key={`${record.at} ${record.action}`}>
          <p>
            <strong>{formatName(record.action)}</strong>
            <ResultBadge result={record.result} />
            <span class="secondary">
              {record.operator}, by {record.via}, <Time at={record.at} />
            </span>
          </p>
          {record.reason !== null && <p class="reason">{record.reason}</p>}
          {record.question !== null && <p class="secondary">Question to the provider: {record.question}</p>}
          {record.result !== "done" && <p class="secondary">{record.result}</p>}
        </li>
      ))}
    </ol>
  </Panel>
)

/** Milliseconds between two reads that changes of the operation cause: it is followed as it moves. */
const gap = 100

/** Milliseconds after which the page reads again by itself: some of what it shows changes without a transition, such as a status read. */
const every = 15_000

const Contents = ({ detail, heading, reload }: {
  readonly detail: Detail
  readonly heading: RefObject<HTMLHeadingElement | null>
  readonly reload: () => void
}) => {
  const { button, termsOf } = useTerms([detail])
  const terms = termsOf(detail)
  return (
    <>
      <div class="operation-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>{detail.operation.type}</h1>
          <p class="operation-id">
            <code>{detail.operation.id}</code>
            <Copy what="Operation id" text={detail.operation.id} />
          </p>
          <div class="operation-terms">
            <OperationBadges summary={detail} />
            {terms !== null && <TermsText terms={terms} />}
            {button}
          </div>
        </div>
        <ActionBar detail={detail} heading={heading} reload={reload} />
      </div>
      <NextPanel detail={detail} />
      <div class="columns">
        <div class="column">
          <Timeline detail={detail} />
          {detail.actions.length > 0 && <ActionRecords actions={detail.actions} />}
        </div>
        <div class="column">
          <FactsPanel detail={detail} />
          <StandingPanel detail={detail} />
          <BudgetsPanel detail={detail} />
        </div>
      </div>
    </>
  )
}

const Missing = ({ id }: { readonly id: string }) => (
  <div class="notice">
    <h1>No such operation</h1>
    <p>
      The ledger has no operation with the id <code>{id}</code>.
    </p>
    <p>
      <a class="button" href={to(["search"], { text: id })}>Search for it as a key or reference</a>
    </p>
  </div>
)

/** Everything about one operation. It follows the operation through its states. */
export const OperationPage = ({ id }: { readonly id: string }) => {
  const resource = useResource<Detail>(`/operations/${encodeURIComponent(id)}`, {
    concerns: ({ operations }) => operations?.some((changed) => changed.id === id) ?? true,
    gap,
    every
  })
  const heading = useRef<HTMLHeadingElement>(null)
  usePageTitle(resource.data === undefined ? "Operation" : resource.data.operation.type)
  useAnnouncedChange(resource.data?.operation.state, (state) => `The operation is now ${state}.`)
  if (resource.error instanceof Refused && [400, 404].includes(resource.error.status)) return <Missing id={id} />
  return (
    <div class="page">
      <Loaded resource={resource}>
        {(detail) => <Contents detail={detail} heading={heading} reload={resource.reload} />}
      </Loaded>
    </div>
  )
}
