import type { Detail } from "../../src/operator/console/ConsoleApi.ts"

type Entry = Detail["history"][number]

/** Whether the transition has evidence. */
export const hasEvidence = ({ evidence }: Entry): boolean =>
  evidence !== null && evidence !== undefined && (typeof evidence !== "object" || Object.keys(evidence).length > 0)

/** The evidence of a transition, as the ledger recorded it. */
export const Evidence = ({ entry: { evidence, revision } }: { readonly entry: Entry }) => (
  <pre class="evidence" tabIndex={0} role="region" aria-label={`Evidence of revision ${revision}`}>
    {JSON.stringify(evidence, null, 2)}
  </pre>
)
