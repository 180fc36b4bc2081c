import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatName } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Panel } from "../parts/Panel.tsx"
import { Time } from "../parts/Time.tsx"
import { NamedValues } from "./NamedValues.tsx"

type Approval = NonNullable<Detail["approval"]>

/** Who decided about the operation, when and why, or until when that is possible. */
const ApprovalText = ({ approval }: { readonly approval: Approval }) => {
  const { decided_as, decided_at, decider, expires_at, reason, state } = approval
  return (
    <>
      {formatName(state)}
      {decider !== null && ` by ${decider} (${decided_as})`}
      <span class="secondary">
        {decided_at === null
          ? (
            <>
              Ends <Time at={expires_at} />
            </>
          )
          : <Time at={decided_at} />}
        {reason !== null && `: ${reason}`}
      </span>
    </>
  )
}

/** What the operation is, and whose. */
export const FactsPanel = ({ detail }: { readonly detail: Detail }) => {
  const { operation } = detail
  return (
    <Panel title="Facts">
      <NamedValues
        values={[
          ["Provider", detail.provider],
          ["Reference", detail.reference === null ? "None yet" : <code>{detail.reference}</code>],
          ["Idempotency key", <code>{detail.idempotency_key}</code>],
          ["Client", <a href={to(["queues", "all"], { client_id: detail.client_id })}>{detail.client_id}</a>],
          [
            "Owner",
            <a href={to(["queues", "all"], { resource_owner: detail.resource_owner })}>{detail.resource_owner}</a>
          ],
          ["Subject", <code>{detail.subject}</code>],
          ["Provider connection", <code>{detail.provider_connection_id}</code>],
          ["Approval", detail.approval === null ? null : <ApprovalText approval={detail.approval} />],
          ["Accepted", <Time at={operation.created_at} />],
          ["In this state since", <Time at={operation.updated_at} />],
          ["Settled", operation.completed_at === null ? null : <Time at={operation.completed_at} />],
          ["Revision", operation.revision]
        ]}
      />
    </Panel>
  )
}
