import type { ComponentChildren } from "preact"
import { useEffect, useId, useRef, useState } from "preact/hooks"
import { validateAskedAt } from "../../src/domain/operators/validateAskedAt.ts"
import type { AdvanceRequest, Detail } from "../../src/operator/console/ConsoleApi.ts"
import { formatInstant } from "../data/format.ts"
import { advance } from "../data/session.ts"
import { Evidence, isEvidence } from "../parts/Evidence.tsx"
import { Consequences, FieldError, maxReason, Subject } from "./ActionDialog.tsx"
import { ActionOutcome } from "./ActionOutcome.tsx"
import { useConfirmation } from "./useConfirmation.ts"

/** Whether an operator may record an outcome here: the provider may have the operation, and it is not settled. */
export const mayAdvance = ({ operation: { state } }: Detail): boolean =>
  state === "submitted" || state === "indeterminate"

/** The fields of the form, by the members that they become. */
type Fields = Readonly<Record<string, string>>

/** The form has only fields of the request. Those of the evidence have the names of its members, and empty ones are left out. */
const requestOf = (fields: Fields, revision: number): AdvanceRequest => {
  const { asked_at, code, message, reason, state, ...given } = fields as Fields & AdvanceRequest["evidence"]
  return {
    outcome: state === "failed" ? { state, failure: { code: code!, message: message! } } : { state: "succeeded" },
    evidence: {
      ...Object.fromEntries(Object.entries(given).filter(([, text]) => text !== "")) as typeof given,
      asked_at: new Date(asked_at).toISOString()
    },
    revision,
    reason: reason!
  }
}

/** Why the ledger would refuse the instant: in its words, but by the clock of this machine. */
const askedAtError = ({ asked_at, state }: Fields, { operation, schedule }: Detail): string | null =>
  validateAskedAt(asked_at!, {
    created_at: Date.parse(operation.created_at),
    now: Date.now(),
    sendable_until: state === "failed" && schedule.send_before !== null ? Date.parse(schedule.send_before) : null,
    fencing_until: schedule.fencing_until === null ? null : Date.parse(schedule.fencing_until),
    isFailure: state === "failed"
  })

/** The ledger also looks for another operation that has the reference. */
const referenceError = ({ reference, reference_of }: Fields, detail: Detail): string | null =>
  reference_of === "answer" || detail.reference === null || detail.reference === reference
    ? null
    : "The provider named the payment otherwise. Is this the reference of the answer?"

/** What is wrong with the fields of the form, in their order. */
const errorsOf = (form: HTMLFormElement, given: Fields, detail: Detail): Fields => {
  const fields = [...form.elements].filter((element): element is HTMLInputElement => "validity" in element)
  const wrong = fields.flatMap((field): ReadonlyArray<readonly [string, string]> => {
    const { name, required, title, validity } = field
    if (required && (given[name] ?? "") === "") return [[name, title || `Fill in: ${field.labels![0]!.innerText}`]]
    if (name === "answer" && given["answer"] === "" && given["document_sha256"] === "") {
      return [[name, "Give the answer, or a document."]]
    }
    const rules = { asked_at: askedAtError, reference: referenceError }
    const error = !validity.valid ? title : rules[name as keyof typeof rules]?.(given, detail) ?? null
    return error === null ? [] : [[name, error]]
  })
  return Object.fromEntries(wrong)
}

/** A label, its field, and what is wrong with it. The field is described by `${id}-error`. */
const Field = ({ children, error, id, label }: {
  readonly children: ComponentChildren
  readonly error?: string | undefined
  readonly id: string
  readonly label: string
}) => (
  <div class="field">
    <label for={id}>{label}</label>
    {children}
    <FieldError id={id} text={error} />
  </div>
)

/** `title`: what to do if the text does not match the pattern. */
const Text = ({ errors, fields, label, max = 4096, name, optional = false, pattern, rows, title, type = "text" }: {
  readonly errors: Fields
  readonly fields: Fields
  readonly label: string
  readonly max?: number
  readonly name: string
  /** Not required: it may be missing, or another field has the same. */
  readonly optional?: boolean
  readonly pattern?: string
  readonly rows?: number
  readonly title?: string
  readonly type?: "text" | "datetime-local"
}) => {
  const id = `${useId()}-${name}`
  const error = errors[name]
  const shared = {
    id,
    name,
    title,
    defaultValue: fields[name] ?? "",
    maxLength: max,
    required: !optional,
    "aria-invalid": error !== undefined,
    "aria-describedby": `${id}-error`
  }
  return (
    <Field id={id} label={label} error={error}>
      {rows === undefined
        ? <input type={type as "text"} step={1} pattern={pattern} {...shared} />
        : <textarea rows={rows} {...shared} />}
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
  const entry = history.toReversed().find(({ evidence }) => isEvidence(evidence))
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
          <Evidence title="Evidence of the last transition" value={entry.evidence} />
        </>
      )}
    </section>
  )
}

/** The question that the page asks a person, and the reference. The person gives the time: the present one would date an earlier answer. */
const initialFields = ({ last_read, reference }: Detail): Fields => ({
  question: last_read?.question ?? "",
  reference: reference ?? ""
})

const EvidenceFields = ({ detail, errors, fields: given }: {
  readonly detail: Detail
  readonly errors: Fields
  readonly fields: Fields
}) => {
  const id = useId()
  const [state, setState] = useState(given["state"] ?? "")
  const [initial] = useState(() => initialFields(detail))
  const shared = { errors, fields: { ...initial, ...given } }
  return (
    <>
      <Field id={`${id}-state`} label="Outcome" error={errors["state"]}>
        <select
          id={`${id}-state`}
          name="state"
          title="Choose the outcome."
          value={state}
          required
          aria-invalid={errors["state"] !== undefined}
          aria-describedby={`${id}-state-error`}
          onChange={(event) => setState(event.currentTarget.value)}
        >
          <option value="" disabled>Choose the outcome</option>
          <option value="succeeded">Succeeded</option>
          <option value="failed">Failed</option>
        </select>
      </Field>
      {state === "failed" && (
        <div class="field-pair">
          <Text
            name="code"
            label="Failure code, for clients"
            max={64}
            pattern="[a-z][a-z0-9_]*"
            title="Small letters, digits and underscores, such as never_received."
            {...shared}
          />
          <Text name="message" label="Failure message, for clients" max={1024} {...shared} />
        </div>
      )}
      <LastAnswers detail={detail} />
      <Text name="question" label="What did you ask?" rows={2} {...shared} />
      <div class="field-pair">
        <Text name="asked" label="Whom did you ask?" {...shared} />
        <Text
          name="asked_at"
          label="When did you ask? (in your time zone)"
          type="datetime-local"
          {...shared}
        />
      </div>
      <Text name="answer" label="Answer in words, or a document" rows={2} optional {...shared} />
      <div class="field-pair">
        <Text
          name="document_sha256"
          label="SHA-256 of the document"
          max={64}
          pattern="[0-9a-f]{64}"
          title="A SHA-256 has 64 digits from 0 to f."
          optional
          {...shared}
        />
        <Field id={`${id}-document`} label="Take it from a document, which is not uploaded">
          <input id={`${id}-document`} type="file" onChange={(event) => void digestOf(event.currentTarget)} />
        </Field>
      </div>
      <div class="field-pair">
        <Text
          name="reference"
          label="Reference of the payment, or of the answer"
          max={1024}
          {...shared}
        />
        <Text
          name="link"
          label="Link to the case (optional, https)"
          max={2048}
          pattern="https://\S+"
          title="The link begins with https://"
          optional
          {...shared}
        />
      </div>
      <label>
        <input type="checkbox" name="reference_of" value="answer" defaultChecked={given["reference_of"] === "answer"} />
        {" The reference is that of the answer, such as a case number: no payment is known, or several"}
      </label>
      <Text
        name="reason"
        label="Reason, recorded with your name"
        rows={2}
        max={maxReason}
        {...shared}
      />
    </>
  )
}

const consequences = {
  succeeded: ["The client sees that the payment or transfer happened.", "No status read corrects this record."],
  failed: [
    "The client sees that the payment or transfer did not happen, and may request it again.",
    "If the provider carries it out after all, the owner pays twice. Passed time proves nothing."
  ]
}

const Stated = ({ request: { evidence, outcome, reason } }: { readonly request: AdvanceRequest }) => (
  <Evidence
    title="What is recorded"
    value={{ outcome: outcome.state, ..."failure" in outcome ? { failure: outcome.failure } : {}, evidence, reason }}
  />
)

/** Records the outcome of an operation that its provider may have: first the answer of the provider, then a second confirmation. */
export const AdvanceDialog = ({ close, detail }: {
  readonly detail: Detail
  readonly close: (done: boolean) => void
}) => {
  const id = useId()
  const [fields, setFields] = useState<Fields>({})
  const [request, setRequest] = useState<AdvanceRequest | null>(null)
  const [errors, setErrors] = useState<Fields>({})
  const { cancelled, dialog, leave, outcome, perform, safe, sending } = useConfirmation<HTMLHeadingElement>(close)
  const confirmed = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    const first = request === null ? safe : confirmed
    first.current?.focus()
  }, [request])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (request !== null) return void perform(() => advance(detail.operation.id, request))
    const form = event.currentTarget as HTMLFormElement
    const given = Object.fromEntries(
      [...new FormData(form)].map(([name, value]) => [name, typeof value === "string" ? value.trim() : ""])
    )
    const wrong = errorsOf(form, given, detail)
    setErrors(wrong)
    const [first] = Object.keys(wrong)
    if (first !== undefined) return (form.elements.namedItem(first) as HTMLElement).focus()
    setFields(given)
    setRequest(requestOf(given, detail.operation.revision))
  }
  return (
    <dialog ref={dialog} class="wide" aria-labelledby={`${id}-title`} onCancel={cancelled}>
      <form onSubmit={submit} noValidate>
        <h2 id={`${id}-title`} ref={safe} tabIndex={-1}>
          {request === null
            ? "Record the outcome of this operation?"
            : `Record it as ${request.outcome.state} for ever?`}
        </h2>
        <Subject detail={detail} />
        {request === null ? <EvidenceFields detail={detail} fields={fields} errors={errors} /> : (
          <>
            <Stated request={request} />
            <Consequences severe texts={consequences[request.outcome.state]} />
          </>
        )}
        <ActionOutcome outcome={outcome} />
        <div class="dialog-buttons">
          {request !== null && outcome !== "unknown" && (
            <button
              type="button"
              ref={confirmed}
              disabled={sending}
              onClick={() => setRequest(null)}
            >
              Correct it
            </button>
          )}
          <button type="button" disabled={sending} onClick={() => leave(false)}>
            {outcome === "unknown" ? "Close and look" : "Go back"}
          </button>
          <button
            type="submit"
            class={request === null ? "primary" : "danger"}
            disabled={sending || outcome === "unknown"}
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
