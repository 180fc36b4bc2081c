import type { ComponentChildren } from "preact"
import { useId, useRef, useState } from "preact/hooks"
import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { act, decide } from "../data/session.ts"
import { TermsText, useTerms } from "../parts/Terms.tsx"
import { ActionOutcome } from "./ActionOutcome.tsx"
import type { ActionText } from "./actions.ts"
import { useConfirmation } from "./useConfirmation.ts"

export const maxReason = 1024

/** The operation that a dialog is about, with its terms. */
export const Subject = ({ detail }: { readonly detail: Detail }) => {
  const { button, termsOf } = useTerms([detail])
  const terms = termsOf(detail)
  return (
    <dl class="dialog-subject">
      <dt>Operation</dt>
      <dd>
        <code>{detail.operation.id}</code>
      </dd>
      {terms !== null && (
        <>
          <dt>Terms</dt>
          <dd>
            <TermsText terms={terms} />
            {button}
          </dd>
        </>
      )}
      <dt>Provider</dt>
      <dd>{detail.provider}</dd>
      <dt>Type</dt>
      <dd>{detail.operation.type} of {detail.resource_owner}, by {detail.client_id}</dd>
      <dt>Grant</dt>
      <dd>
        <code>{detail.grant_id}</code>
      </dd>
    </dl>
  )
}

/** What is wrong with the field of this id, which it describes. */
export const FieldError = ({ id, text }: { readonly id: string; readonly text: string | undefined }) => (
  <p id={`${id}-error`} class="field-error">{text}</p>
)

/** The reason of an action, which is recorded. */
const Reason = ({ field, id, invalid, required }: {
  readonly field: { current: HTMLTextAreaElement | null }
  readonly id: string
  readonly invalid: boolean
  readonly required: boolean
}) => (
  <div class="field">
    <label for={`${id}-reason`}>Reason{required ? "" : " (optional)"}</label>
    <textarea
      id={`${id}-reason`}
      ref={field}
      rows={2}
      maxLength={maxReason}
      required={required}
      aria-describedby={`${id}-hint ${id}-reason-error`}
      aria-invalid={invalid}
    />
    <FieldError
      id={`${id}-reason`}
      text={invalid ? "Give a reason." : undefined}
    />
    <p id={`${id}-hint`} class="secondary">Recorded with your name. Write no secrets and no personal data.</p>
  </div>
)

/** A list of what an action can cause. */
export const Consequences = ({ severe, texts }: {
  readonly severe: boolean
  readonly texts: ReadonlyArray<ComponentChildren>
}) => <ul class={severe ? "consequences severe" : "consequences"}>{texts.map((text, n) => <li key={n}>{text}</li>)}</ul>

/** Asks for the confirmation of an action: what it means, what it can cause, and why the operator does it. */
export const ActionDialog = ({ action, close, detail }: {
  readonly action: ActionText
  readonly detail: Detail
  readonly close: (done: boolean) => void
}) => {
  const reason = useRef<HTMLTextAreaElement>(null)
  const id = useId()
  const [invalid, setInvalid] = useState(false)
  const { cancelled, dialog, leave, outcome, perform, safe, sending } = useConfirmation(close)
  // An approval is about what the operator saw.
  const { button, digestOf } = useTerms([detail])
  const request_digest = digestOf(detail)
  const isUnseen = action.name === "approved" && request_digest === undefined
  const confirm = (event: Event) => {
    event.preventDefault()
    const given = reason.current!.value.trim()
    setInvalid(action.severe && given === "")
    if (action.severe && given === "") return reason.current!.focus()
    const { id, revision } = detail.operation
    const { name } = action
    void perform(() =>
      name === "approved"
        ? decide(id, { decision: name, request_digest: request_digest!, reason: given })
        : name === "denied"
        ? decide(id, { decision: name, reason: given })
        : act(id, { action: name, revision, reason: given === "" ? null : given })
    )
  }
  return (
    <dialog ref={dialog} aria-labelledby={`${id}-title`} aria-describedby={`${id}-meaning`} onCancel={cancelled}>
      <form onSubmit={confirm} noValidate>
        <h2 id={`${id}-title`}>{action.title}</h2>
        <Subject detail={detail} />
        <p id={`${id}-meaning`}>{action.meaning}</p>
        <Consequences severe={action.final} texts={action.consequences(detail)} />
        <Reason field={reason} id={id} invalid={invalid} required={action.severe} />
        {isUnseen && (
          <p class="secondary">
            {button !== null
              ? "Show the amount and the payee first: the approval is about exactly these."
              : "This console lacks the key of the amount and the payee: approve where it is."}
          </p>
        )}
        <ActionOutcome outcome={outcome} />
        <div class="dialog-buttons">
          <button type="button" ref={safe} disabled={sending} onClick={() => leave(false)}>
            {outcome === "unknown" ? "Close and look" : "Go back"}
          </button>
          <button
            type="submit"
            class={action.final ? "danger" : "primary"}
            disabled={sending || isUnseen || outcome === "unknown"}
          >
            {sending ? "Asking the ledger…" : action.confirm}
          </button>
        </div>
      </form>
    </dialog>
  )
}
