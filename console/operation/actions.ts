/** What operators may do to an operation, and what they are told before they confirm it. */
import type { ActionRequest, DecisionRequest, Detail } from "../../src/operator/console/ConsoleApi.ts"

type ActionName = ActionRequest["action"] | DecisionRequest["decision"]

export interface ActionText {
  readonly name: ActionName
  /** Label of the button that opens the dialog. */
  readonly label: string
  readonly title: string
  /** Label of the button that confirms. It names the action. */
  readonly confirm: string
  readonly meaning: string
  /** What the action can cause, one sentence or two each. */
  readonly consequences: (detail: Detail) => ReadonlyArray<string>
  /** Whether it can cause a loss, so that a reason is required. */
  readonly severe: boolean
  /** Whether that cannot be undone: the dialog is red. */
  readonly final: boolean
  readonly possible: (detail: Detail) => boolean
}

const review: ActionText = {
  name: "review",
  label: "Review",
  title: "Put this operation under review?",
  confirm: "Put under review",
  meaning: "The operation is marked as one that people look into.",
  consequences: () => [
    "Workers and status reads go on as before.",
    "Clients of the gateway see that the operation is under review."
  ],
  severe: false,
  final: false,
  possible: ({ operation }) => !operation.terminal && !operation.under_review
}

const endReview: ActionText = {
  name: "end_review",
  label: "End review",
  title: "End the review of this operation?",
  confirm: "End review",
  meaning: "The operation leaves the queue of reviews.",
  consequences: () => [
    "Workers and status reads go on as before.",
    "The gateway begins the next review after the full review age."
  ],
  severe: false,
  final: false,
  possible: ({ operation, schedule }) =>
    !operation.terminal && operation.under_review && schedule.hold?.kind !== "approval"
}

const hold: ActionText = {
  name: "hold",
  label: "Hold",
  title: "Hold this operation?",
  confirm: "Hold operation",
  meaning: "No worker claims the operation until it is released. It is not sent meanwhile.",
  consequences: ({ schedule }) => [
    "The payment or transfer is late. Its client sees no reason.",
    "If a worker claims the operation first, it is sent, and the ledger refuses the hold.",
    schedule.hold === null
      ? "It can be released or cancelled at any time after that."
      : "Only a release ends this hold."
  ],
  severe: true,
  final: false,
  possible: ({ operation, schedule }) => operation.state === "accepted" && !schedule.hold?.by_operator
}

const releaseConsequences = ({ provider, schedule: { hold, unsent } }: Detail): ReadonlyArray<string> =>
  hold?.kind === "approval"
    ? ["It waits for its approval."]
    : [
      ...unsent ? ["The operation was never sent."] : [
        ...hold?.kind === "failover"
          ? ["The database failed over, and may have lost the record that this operation was sent."]
          : [],
        `If it was sent before it was held, a release can make ${provider} pay a second time.`,
        `Ask ${provider} first whether it received an operation with this id. Release only if it did not.`
      ],
      "A worker may send it within a second. It can be cancelled only until then."
    ]

const release: ActionText = {
  name: "release",
  label: "Release",
  title: "Release this operation?",
  confirm: "Release for sending",
  meaning: "Workers may claim the operation once it needs no approval, and send it to its provider.",
  consequences: releaseConsequences,
  severe: true,
  final: true,
  possible: ({ schedule: { hold } }) => hold !== null && (hold.kind !== "approval" || hold.by_operator === true)
}

const read: ActionText = {
  name: "read",
  label: "Read status",
  title: "Read the status of this operation?",
  confirm: "Read status",
  meaning: "The next status read is due now. It sends no payment.",
  consequences: () => ["A reconciler asks the provider, if the grant allows it."],
  severe: false,
  final: false,
  possible: ({ operation: { state } }) => state === "submitted" || state === "indeterminate"
}

const doesNotHappen = "The payment or transfer does not happen. Its client sees "

/** The operation waits for a decision. */
const waits = ({ approval, schedule }: Detail) => approval?.state === "pending" && schedule.hold?.kind === "approval"

const approve: ActionText = {
  name: "approved",
  label: "Approve",
  title: "Approve this operation?",
  confirm: "Approve",
  meaning: "Workers may claim the operation, unless an operator holds it, and send it to its provider.",
  consequences: ({ schedule }) => [
    "The payment or transfer happens, to exactly this payee and with exactly this amount.",
    schedule.hold?.by_operator
      ? "It is sent once it is released."
      : "A worker may send it within a second."
  ],
  severe: true,
  final: true,
  possible: waits
}

const deny: ActionText = {
  name: "denied",
  label: "Deny",
  title: "Deny this operation?",
  confirm: "Deny for ever",
  meaning: "The operation is cancelled, and is never sent. This cannot be undone.",
  consequences: () => [`${doesNotHappen}that the operation was cancelled.`],
  severe: true,
  final: true,
  possible: waits
}

const cancel: ActionText = {
  name: "cancel",
  label: "Cancel operation",
  title: "Cancel this operation?",
  confirm: "Cancel for ever",
  meaning: "The operation ends, and is never sent. This cannot be undone.",
  consequences: ({ operation, schedule }) => [
    operation.state === "accepted"
      ? `${doesNotHappen}that the operation was cancelled.`
      : `${doesNotHappen}a failed operation with the code cancelled_unsent.`,
    "To pay after all, the client needs a request with another idempotency key.",
    ...schedule.hold === null
      ? ["If a worker claims the operation first, it is sent, and the ledger refuses the cancellation."]
      : []
  ],
  severe: true,
  final: true,
  possible: (detail) => detail.schedule.unsent && !waits(detail)
}

/** The actions, in the order of their buttons. */
export const actionTexts: ReadonlyArray<ActionText> = [approve, deny, release, read, review, endReview, hold, cancel]
