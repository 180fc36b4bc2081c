/** What came of a confirmed action. */
export type Outcome =
  /** No reason was given, and the action needs one. Nothing was sent. */
  | { readonly kind: "incomplete" }
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "unknown" }
  | { readonly kind: "done" }

const contents = (outcome: Outcome | undefined) => {
  switch (outcome?.kind) {
    case "incomplete":
      return <p class="refusal">Give a reason. This action can cause a loss, so the record needs one.</p>
    case "refused":
      return (
        <div class="refusal">
          <strong>The ledger refused. Nothing changed.</strong>
          <p>{outcome.message}</p>
        </div>
      )
    case "unknown":
      return (
        <div class="refusal">
          <strong>The result is unknown.</strong>
          <p>
            No answer arrived, so the action may have been done. Look at the operation and its actions before you try
            again.
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
