import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatName } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { Time } from "../parts/Time.tsx"

/** What operators did to the operation, the latest first, and what the ledger refused. */
export const ActionRecords = ({ actions }: { readonly actions: Detail["actions"] }) => (
  <Panel title="Actions of operators">
    <ol class="records">
      {actions.toReversed().map((record) => (
        <li key={`${record.at} ${record.action}`}>
          <p>
            <strong>{formatName(record.action)}</strong>
            {record.result !== "done" && <span class="badge badge-refused">Refused</span>}
            <span class="secondary">
              {record.operator}, by {record.via}, <Time at={record.at} />
            </span>
          </p>
          {record.reason !== null && <p class="reason">{record.reason}</p>}
          {record.result !== "done" && <p class="secondary">{record.result}</p>}
        </li>
      ))}
    </ol>
  </Panel>
)
