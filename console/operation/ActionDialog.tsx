import { useEffect, useId, useRef, useState } from "preact/hooks"
import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { Refused } from "../data/request.ts"
import { act } from "../data/session.ts"
import { ActionOutcome, type Outcome } from "./ActionOutcome.tsx"
import type { ActionText } from "./actions.ts"

const maxReason = 1024

const outcomeOf = (error: unknown): Outcome => {
  if (!(error instanceof Refused)) return { kind: "unknown" }
  if (error.code === "done_but_unread") return { kind: "done" }
  if (error.code === "unknown_result") return { kind: "unknown" }
  return { kind: "refused", message: error.message }
}

/** Sends the confirmed action once. `outcome` is undefined until there is one. */
const usePerformed = ({ name, severe }: ActionText, detail: Detail, close: (done: boolean) => void) => {
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [sending, setSending] = useState(false)
  const perform = async (reason: string) => {
    if (severe && reason === "") return setOutcome({ kind: "incomplete" })
    setSending(true)
    setOutcome(undefined)
    try {
      const { id, revision } = detail.operation
      await act(id, { action: name, revision, reason: reason === "" ? null : reason })
      close(true)
    } catch (error) {
      const known = outcomeOf(error)
      if (known.kind === "done") return close(true)
      setOutcome(known)
      setSending(false)
    }
  }
  return { outcome, perform, sending }
}

const Subject = ({ detail: { client_id, operation, provider, resource_owner } }: { readonly detail: Detail }) => (
  <dl class="dialog-subject">
    <dt>Operation</dt>
    <dd>
      <code>{operation.id}</code>
    </dd>
    <dt>Provider</dt>
    <dd>{provider}</dd>
    <dt>Type</dt>
    <dd>{operation.type} of {resource_owner}, by {client_id}</dd>
  </dl>
)

/** Asks for the confirmation of an action: what it means, what it can cause, and why the operator does it. */
export const ActionDialog = ({ action, close, detail }: {
  readonly action: ActionText
  readonly detail: Detail
  readonly close: (done: boolean) => void
}) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const safe = useRef<HTMLButtonElement>(null)
  const reason = useRef<HTMLTextAreaElement>(null)
  const id = useId()
  // An open dialog makes the page inert, so it closes before the focus returns to the page.
  const leave = (done: boolean) => {
    dialog.current?.close()
    close(done)
  }
  const { outcome, perform, sending } = usePerformed(action, detail, leave)
  useEffect(() => {
    dialog.current?.showModal()
    safe.current?.focus()
  }, [])
  useEffect(() => {
    if (outcome?.kind === "incomplete") reason.current?.focus()
  }, [outcome])
  const confirm = (event: Event) => {
    event.preventDefault()
    void perform(reason.current!.value.trim())
  }
  const cancelled = (event: Event) => {
    event.preventDefault()
    if (!sending) leave(false)
  }
  return (
    <dialog ref={dialog} aria-labelledby={`${id}-title`} aria-describedby={`${id}-meaning`} onCancel={cancelled}>
      <form onSubmit={confirm} noValidate>
        <h2 id={`${id}-title`}>{action.title}</h2>
        <Subject detail={detail} />
        <p id={`${id}-meaning`}>{action.meaning}</p>
        <ul class={action.final ? "consequences severe" : "consequences"}>
          {action.consequences(detail).map((text) => <li key={text}>{text}</li>)}
        </ul>
        <div class="field">
          <label for={`${id}-reason`}>Reason{action.severe ? "" : " (optional)"}</label>
          <textarea
            id={`${id}-reason`}
            ref={reason}
            rows={2}
            maxLength={maxReason}
            required={action.severe}
            aria-describedby={`${id}-hint`}
            aria-invalid={outcome?.kind === "incomplete"}
          />
          <p id={`${id}-hint`} class="secondary">Recorded with your name. Write no secrets and no personal data.</p>
        </div>
        <ActionOutcome outcome={outcome} />
        <div class="dialog-buttons">
          <button type="button" ref={safe} disabled={sending} onClick={() => leave(false)}>
            {outcome?.kind === "unknown" ? "Close and look" : "Go back"}
          </button>
          <button
            type="submit"
            class={action.final ? "danger" : "primary"}
            disabled={sending || outcome?.kind === "unknown"}
          >
            {sending ? "Asking the ledger…" : action.confirm}
          </button>
        </div>
      </form>
    </dialog>
  )
}
