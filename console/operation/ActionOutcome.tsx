/** What came of a confirmed action. */
export type Outcome =
  | { readonly kind: "refused"; readonly message: string; readonly code: string }
  | { readonly kind: "unknown" }
  | { readonly kind: "done" }

/** What the operator does instead, by the code of the refusal. The message tells the rest. */
const instead: Readonly<Record<string, string>> = {
  moved_on: "Go back: the page shows the operation as it is now. Then decide again.",
  already_settled: "Go back: the timeline shows how it ended.",
  illegal_transition: "Go back: the page shows the next action, and what its state permits.",
  still_held: "Go back: the page shows when it can be released. Until then it stays unsent."
}

const contents = (outcome: Outcome | undefined) => {
  switch (outcome?.kind) {
    case "refused":
      return (
        <div class="refusal">
          <strong>The ledger refused. Nothing changed.</strong>
          <p>{outcome.message}</p>
          {instead[outcome.code] !== undefined && <p>{instead[outcome.code]}</p>}
        </div>
      )
    case "unknown":
      return (
        <div class="refusal">
          <strong>The result is unknown.</strong>
          <p>
            No answer arrived, so the action may have been done. Look at the operation before you try again.
          </p>
        </div>
      )
    default:
      return null
  }
}

/** Tells of the outcome, also to screen readers. */
export const ActionOutcome = ({ outcome }: { readonly outcome: Outcome | undefined }) => (
  <div role="alert">{contents(outcome)}</div>
)
