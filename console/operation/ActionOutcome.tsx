import type { RefusalCode } from "../../src/operator/console/ConsoleApi.ts"
import type { Refused } from "../data/request.ts"

/** Why a confirmed action was not done. `unknown`: it may have been done. */
export type Outcome = Refused | "unknown"

/**
 * What the operator does instead, by the codes with which nothing changed. Empty: the message tells it. After any other answer, such as one
 * of a proxy, the result is unknown.
 */
export const instead: Readonly<Record<string, string>> = {
  no_session: "",
  foreign_origin: "",
  wrong_csrf_token: "",
  payload_too_large: "",
  unsupported_media_type: "",
  invalid_request: "",
  operation_not_found: "",
  moved_on: "Go back: the page shows the operation as it is now. Then decide again.",
  already_settled: "Go back: the timeline shows how it ended.",
  illegal_transition: "Go back: the page shows the next action, and what its state permits.",
  still_held: "Go back: the page shows when it can be released. Until then it stays unsent."
} satisfies Record<RefusalCode, string>

const Contents = ({ outcome }: { readonly outcome: Outcome }) => (
  <div class="refusal">
    {outcome === "unknown"
      ? (
        <>
          <strong>The result is unknown.</strong>
          <p>The action may have been done. Look at the operation before you try again.</p>
        </>
      )
      : (
        <>
          <strong>The ledger refused. Nothing changed.</strong>
          <p>{outcome.message}</p>
          {instead[outcome.code] && <p>{instead[outcome.code]}</p>}
        </>
      )}
  </div>
)

/** Tells of the outcome, also to screen readers. */
export const ActionOutcome = ({ outcome }: { readonly outcome: Outcome | undefined }) => (
  <div role="alert">{outcome && <Contents outcome={outcome} />}</div>
)
