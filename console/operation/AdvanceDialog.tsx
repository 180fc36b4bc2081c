import type { ComponentChildren } from "preact"
import { useEffect, useId, useRef, useState } from "preact/hooks"
import type { AdvanceRequest, Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatInstant } from "../data/format.ts"
import { advance } from "../data/session.ts"
import { Consequences, maxReason, Subject } from "./ActionDialog.tsx"
import { ActionOutcome } from "./ActionOutcome.tsx"
import { Evidence, hasEvidence } from "./Evidence.tsx"
import { useConfirmation } from "./useConfirmation.ts"

/** Whether an operator may record an outcome here: the provider may have the operation, and it is not settled. */
export const mayAdvance = ({ operation: { state } }: Detail): boolean =>
  state === "submitted" || state === "indeterminate"

/** The fields of the form, by the members that they become. */
type Fields = Readonly<Record<string, string>>

const requestOf = (fields: Fields, revision: number): AdvanceRequest => ({
  outcome: fields["state"] === "failed"
    ? { state: "failed", failure: { code: fields["code"]!, message: fields["message"]! } }
    : { state: "succeeded" },
  evidence: {
    question: fields["question"]!,
    asked: fields["asked"]!,
    asked_at: new Date(fields["asked_at"]!).toISOString(),
    reference: fields["reference"]!,
    ...fields["answer"] === "" ? {} : { answer: fields["answer"]! },
    ...fields["document_sha256"] === "" ? {} : { document_sha256: fields["document_sha256"]! },
    ...fields["link"] === "" ? {} : { link: fields["link"]! }
  },
  revision,
  reason: fields["reason"]!
})

const Field = ({ children, id, label }: {
  readonly children: ComponentChildren
  readonly id: string
  readonly label: string
}) => (
  <div class="field">
    <label for={id}>{label}</label>
    {children}
  </div>
)

const Text = ({ fields, label, max = 4096, name, optional = false, pattern, rows }: {
  readonly fields: Fields
  readonly label: string
  readonly max?: number
  readonly name: string
  readonly optional?: boolean
  readonly pattern?: string
  readonly rows?: number
}) => {
  const id = `${useId()}-${name}`
  const shared = { id, name, defaultValue: fields[name] ?? "", maxLength: max, required: !optional }
  return (
    <Field id={id} label={optional ? `${label} (optional)` : label}>
      {rows === undefined ? <input type="text" pattern={pattern} {...shared} /> : <textarea rows={rows} {...shared} />}
    </Field>
  )
}

/** Fills in the digest of a document, which stays on this machine. */
const digestOf = async (input: HTMLInputElement) => {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await input.files![0]!.arrayBuffer()))
  const digest = input.form!.elements.namedItem("document_sha256") as HTMLInputElement
  digest.value = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
}

/** What the provider said last: the status read, and the evidence of the last transition, which may be older. */
const LastAnswers = ({ detail: { history, last_read } }: { readonly detail: Detail }) => {
  const entry = history.toReversed().find(hasEvidence)
  return (
    <section aria-label="Last answers of the provider">
      <p class="secondary">
        {last_read === null
          ? "No status read has an answer."
          : `Status read ${last_read.read}, of ${formatInstant(last_read.at)}: ${last_read.answer}`}
      </p>
      {entry !== undefined && (
        <>
          <p class="secondary">{`Evidence of the last transition, of ${formatInstant(entry.at)} (${entry.to})`}</p>
          <Evidence entry={entry} />
        </>
      )}
    </section>
  )
}

const EvidenceFields = ({ detail, fields }: { readonly detail: Detail; readonly fields: Fields }) => {
  const id = useId()
  const [state, setState] = useState(fields["state"] ?? "")
  return (
    <>
      <Field id={`${id}-state`} label="Outcome">
        <select
          id={`${id}-state`}
          name="state"
          value={state}
          required
          onChange={(event) => setState(event.currentTarget.value)}
        >
          <option value="" disabled>Choose the outcome</option>
          <option value="succeeded">Succeeded</option>
          <option value="failed">Failed</option>
        </select>
      </Field>
      {state === "failed" && (
        <>
          <Text name="code" label="Failure code, for clients" max={64} pattern="[a-z][a-z0-9_]*" fields={fields} />
          <Text name="message" label="Failure message, for clients" max={1024} fields={fields} />
        </>
      )}
      <LastAnswers detail={detail} />
      <Text name="question" label="What did you ask?" rows={2} fields={fields} />
      <Text name="asked" label="Whom did you ask?" fields={fields} />
      <Field id={`${id}-at`} label="When did you ask? (in your time zone)">
        <input
          id={`${id}-at`}
          type="datetime-local"
          name="asked_at"
          defaultValue={fields["asked_at"] ?? ""}
          required
        />
      </Field>
      <Text
        name="reference"
        label="Reference of the payment, or of the answer"
        fields={{ reference: detail.reference ?? "", ...fields }}
      />
      <Text name="answer" label="Answer in words" rows={3} optional fields={fields} />
      <Text
        name="document_sha256"
        label="SHA-256 of the document with the answer"
        max={64}
        pattern="[0-9a-f]{64}"
        optional
        fields={fields}
      />
      <Field id={`${id}-document`} label="Take it from a document, which is not uploaded">
        <input id={`${id}-document`} type="file" onChange={(event) => void digestOf(event.currentTarget)} />
      </Field>
      <Text
        name="link"
        label="Link to the case or the document (https)"
        max={2048}
        pattern="https://\S+"
        optional
        fields={fields}
      />
      <Text name="reason" label="Reason, recorded with your name" rows={2} max={maxReason} fields={fields} />
    </>
  )
}

const consequences = {
  succeeded: ["The client sees that the payment or transfer happened.", "No status read corrects this record."],
  failed: [
    "The client sees that the payment or transfer did not happen, and may request it again.",
    "If the provider carries it out after all, the owner pays twice. Never record this because time has passed."
  ]
}

const Stated = ({ request: { evidence, outcome, reason } }: { readonly request: AdvanceRequest }) => (
  <dl class="dialog-subject">
    {Object.entries({
      outcome: outcome.state,
      ..."failure" in outcome ? { failure: `${outcome.failure.code}: ${outcome.failure.message}` } : {},
      ...evidence,
      reason
    }).map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name}-value`}>{value}</dd>])}
  </dl>
)

/** Records the outcome of an operation that its provider may have: first the answer of the provider, then a second confirmation. */
export const AdvanceDialog = ({ close, detail }: {
  readonly detail: Detail
  readonly close: (done: boolean) => void
}) => {
  const id = useId()
  const [fields, setFields] = useState<Fields>({})
  const [request, setRequest] = useState<AdvanceRequest | null>(null)
  const { cancelled, dialog, leave, outcome, perform, safe, sending } = useConfirmation(close)
  const confirmed = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (request !== null) confirmed.current?.focus()
  }, [request])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (request !== null) return void perform(() => advance(detail.operation.id, request))
    const form = event.currentTarget as HTMLFormElement
    const answer = form.elements.namedItem("answer") as HTMLTextAreaElement
    const digest = form.elements.namedItem("document_sha256") as HTMLInputElement
    answer.setCustomValidity(
      answer.value.trim() === "" && digest.value === "" ? "Give the answer, or the digest of its document." : ""
    )
    if (!form.reportValidity()) return
    const given = Object.fromEntries(
      [...new FormData(form)].map(([name, value]) => [name, typeof value === "string" ? value.trim() : ""])
    )
    setFields(given)
    setRequest(requestOf(given, detail.operation.revision))
  }
  return (
    <dialog ref={dialog} class="wide" aria-labelledby={`${id}-title`} onCancel={cancelled}>
      <form onSubmit={submit} noValidate>
        <h2 id={`${id}-title`}>
          {request === null
            ? "Record the outcome of this operation?"
            : `Record it as ${request.outcome.state} for ever?`}
        </h2>
        <Subject detail={detail} />
        {request === null ? <EvidenceFields detail={detail} fields={fields} /> : (
          <>
            <Stated request={request} />
            <Consequences severe texts={consequences[request.outcome.state]} />
          </>
        )}
        <ActionOutcome outcome={outcome} />
        <div class="dialog-buttons">
          {request !== null && outcome?.kind !== "unknown" && (
            <button
              type="button"
              ref={confirmed}
              disabled={sending}
              onClick={() => setRequest(null)}
            >
              Correct it
            </button>
          )}
          <button type="button" ref={safe} disabled={sending} onClick={() => leave(false)}>
            {outcome?.kind === "unknown" ? "Close and look" : "Go back"}
          </button>
          <button
            type="submit"
            class={request === null ? "primary" : "danger"}
            disabled={sending || outcome?.kind === "unknown"}
          >
            {request === null
              ? "Check and confirm"
              : sending
              ? "Asking the ledger…"
              : `Record as ${request.outcome.state}`}
          </button>
        </div>
      </form>
    </dialog>
  )
}
