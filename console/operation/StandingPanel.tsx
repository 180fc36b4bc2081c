import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatName } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { isUnsent } from "./isUnsent.ts"
import { NamedValues } from "./NamedValues.tsx"

const Mark = ({ good, text }: { readonly good: boolean; readonly text: string }) => (
  <span class={good ? "mark mark-good" : "mark mark-bad"}>
    <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={good ? "M2 6.4 4.8 9.2 10 3.4" : "M2.6 2.6l6.8 6.8M9.4 2.6 2.6 9.4"} />
    </svg>
    {text}
  </span>
)

/** What allows the operation to be sent and its status to be read. */
export const StandingPanel = ({ detail: { grant_id, operation, scopes, standing } }: { readonly detail: Detail }) => (
  <Panel title="Authorization">
    <NamedValues
      values={[
        [
          "Sending",
          isUnsent(operation.state)
            ? (
              <Mark
                good={standing.may_send}
                text={standing.may_send ? "A grant allows it" : "No live grant allows it"}
              />
            )
            : null
        ],
        [
          "Status reads",
          <Mark
            good={standing.may_read}
            text={standing.may_read ? "A grant allows them" : "No live grant allows them"}
          />
        ],
        ["Client", <Mark good={standing.client_active} text={standing.client_active ? "Active" : "Deactivated"} />],
        [
          "Provider connection",
          <Mark good={standing.provider_connected} text={standing.provider_connected ? "Connected" : "Disconnected"} />
        ],
        ["Accepting grant", <Mark good={standing.grant === "live"} text={formatName(standing.grant)} />],
        ["Grant", <code>{grant_id}</code>],
        ["Scopes", <span class="scopes">{scopes.map((scope) => <code key={scope}>{scope}</code>)}</span>]
      ]}
    />
  </Panel>
)
