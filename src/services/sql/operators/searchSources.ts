/**
 * The index that a list of operators follows, and how. A source has sections: ranges of its index, each in the order of the list. In
 * all fragments `o` is a row of `operations`, `l` a section.
 */
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { idPattern, type OperationState } from "../../../domain/Operation.ts"
import type { OperationFilter } from "../../../domain/operators/OperatorView.ts"
import { indexedTimeline, instantAt } from "../queueFragments.ts"

/** A column of the order. `text` turns it into the text of a position, `value` turns a parameter with that text back. */
interface SortColumn {
  readonly column: string
  readonly form: SortForm
  readonly text: (column: string) => string
  readonly value: (parameter: string) => string
}

/** An index in the order of a list, and its sections. */
export interface Source {
  /** In positions. */
  readonly name: string
  readonly sort: ReadonlyArray<SortColumn>
  /** CTEs. The last one is `sections_found`. */
  readonly sections: string
  /** The rows of a section. */
  readonly within: string
}

/** A filter whose payee is in the form of the index, in hexadecimal. */
export interface SearchFilter extends Omit<OperationFilter, "payee"> {
  readonly payee_indexes?: ReadonlyArray<string>
}

/** Adds a parameter to the statement, and returns its name. */
export type AddParameter = (value: unknown) => string

const millisOf = (column: string) => `(extract(epoch FROM ${column}) * 1000)::bigint::text`

const id: SortColumn = {
  column: "o.id",
  form: "id",
  text: (column) => `${column}::text`,
  value: (name) => `${name}::uuid`
}

const since: SortColumn = {
  column: "o.updated_at",
  form: "instant",
  text: millisOf,
  value: instantAt
}

const changedAt = (column: string): SortColumn => ({
  column,
  form: "position",
  text: (column) => `${column}::text`,
  value: (name) => `${name}::bigint`
})

const named = (column: string): SortColumn => ({
  column,
  form: "name",
  text: (column) => column,
  value: (name) => `${name}::text`
})

/** An accepted operation is held. The timeline is in a subquery, so that PostgreSQL asks for it once. */
export const isHeld = `o.state = 'accepted' AND ${indexedTimeline} < (SELECT ledger_timeline())`

/** The condition of `operations_waiting`. It must stand here as it stands there. */
const mayWait =
  "(o.state IN ('accepted', 'submitted', 'indeterminate') AND o.waiting OR o.state = 'submitting' AND o.return_reason IS NOT NULL)"

/** An operation in the queue `waiting`. A held operation waits for something else. */
export const isWaiting = `${mayWait} AND NOT (${isHeld})`

/** The unsettled operations in these states, by the time in their state. */
const unsettled = (
  states: ReadonlyArray<OperationState>,
  { provider, queue }: OperationFilter,
  add: AddParameter
): Source => {
  const of = provider === undefined ? "" : ` AND o.provider = ${add(provider)}`
  // With the provider fixed, a comparison of rows would make PostgreSQL read all of the first section.
  const further = provider === undefined
    ? `(o.provider, ${indexedTimeline}) > (f.provider, f.section)`
    : `${indexedTimeline} > f.section`
  const next = (state: string, condition: string) => `
        SELECT o.provider, ${indexedTimeline} AS section FROM operations o
        WHERE o.completed_at IS NULL AND o.state = ${state}${of}${condition}
        ORDER BY o.provider, ${indexedTimeline} LIMIT 1`
  return {
    name: "state",
    sort: [since, id],
    sections: `found AS (
      SELECT s.state, n.* FROM unnest(${add(states)}::text[]) s (state) CROSS JOIN LATERAL (${next("s.state", "")}) n
      UNION ALL
      SELECT f.state, n.* FROM found f CROSS JOIN LATERAL (${next("f.state", ` AND ${further}`)}) n
    ), sections_found AS (
      SELECT * FROM found${queue === "held" ? " WHERE section < (SELECT ledger_timeline())" : ""}
    )`,
    within:
      `o.completed_at IS NULL AND o.state = l.state AND o.provider = l.provider AND ${indexedTimeline} = l.section`
  }
}

/** The rows of a partial index by provider and time in the state. */
const byProvider = (name: string, condition: string, { provider }: OperationFilter, add: AddParameter): Source => {
  const next = (further: string) => `
        SELECT o.provider FROM operations o WHERE ${condition}${further} ORDER BY o.provider LIMIT 1`
  return {
    name,
    sort: [since, id],
    sections: provider !== undefined
      ? `sections_found AS (SELECT ${add(provider)}::text AS provider)`
      : `sections_found AS (
      SELECT n.* FROM (${next("")}) n
      UNION ALL
      SELECT n.* FROM sections_found f CROSS JOIN LATERAL (${next(" AND o.provider > f.provider")}) n
    )`,
    within: `${condition} AND o.provider = l.provider`
  }
}

/** The operations of a resource owner, by their last change. A section for each client and subject. */
const ofOwner = (owner: string, { client_id }: OperationFilter, add: AddParameter): Source => {
  const name = add(owner)
  const next = (client: string, further: string) => `
        SELECT o.subject FROM operations o WHERE o.client_id = ${client} AND o.resource_owner = ${name}${further}
        ORDER BY o.subject LIMIT 1`
  const clients = client_id === undefined ? "SELECT id FROM clients" : `SELECT ${add(client_id)}::text`
  return {
    name: "owner",
    sort: [changedAt("o.change_position"), id],
    sections: `sections_found AS (
      SELECT k.id AS client_id, n.* FROM (${clients}) k (id) CROSS JOIN LATERAL (${next("k.id", "")}) n
      UNION ALL
      SELECT f.client_id, n.* FROM sections_found f
      CROSS JOIN LATERAL (${next("f.client_id", " AND o.subject > f.subject")}) n
    )`,
    within: `o.client_id = l.client_id AND o.resource_owner = ${name} AND o.subject = l.subject`
  }
}

/** A reversal `r` that operators are told of. */
export const isLateReversal = "r.recorded_at > now() - interval '7 days'"

/** The reversed operations. A section for each, so there are fewer than half of the rows that a page looks at. */
const reversed = ({ provider }: OperationFilter, add: AddParameter): Source => ({
  name: "reversed",
  sort: [since, id],
  sections: `sections_found AS (
      SELECT r.operation_id, r.client_id FROM operation_reversals r
      WHERE ${isLateReversal}${provider === undefined ? "" : ` AND r.provider = ${add(provider)}`}
      ORDER BY r.recorded_at DESC LIMIT 500
    )`,
  within: "o.id = l.operation_id AND o.client_id = l.client_id"
})

/** An operation in the queue `failed`. Nothing changes a failed operation. */
export const isFailed = "o.state = 'failed' AND o.updated_at > now() - interval '24 hours'"

const nextFailure = (further: string) => `
        SELECT o.provider, o.failure_code AS code FROM operations o WHERE o.state = 'failed'${further}
        ORDER BY o.provider, o.failure_code LIMIT 1`

/** A CTE with the providers of failed operations, and the codes of each, at any time. */
export const failedSections = `failures AS (
      SELECT n.* FROM (${nextFailure("")}) n
      UNION ALL
      SELECT n.* FROM failures f
      CROSS JOIN LATERAL (${nextFailure(" AND (o.provider, o.failure_code) > (f.provider, f.code)")}) n
    )`

/** Those of a section `l`, by the index `operations_failed`. */
export const inFailedSection = `${isFailed} AND o.provider = l.provider AND o.failure_code = l.code`

const failed = ({ failure_code, provider }: OperationFilter, add: AddParameter): Source => ({
  name: "failed",
  sort: [since, id],
  sections: `${failedSections}, sections_found AS (
      SELECT * FROM failures WHERE ${provider === undefined ? "true" : `provider = ${add(provider)}`}
        AND ${failure_code === undefined ? "true" : `code = ${add(failure_code)}`}
    )`,
  within: inFailedSection
})

/** The operations of a payee. A section for each value that it may have: see `payeeIndexes`. */
const ofPayee = (indexes: ReadonlyArray<string>, add: AddParameter): Source => ({
  name: "payee",
  sort: [since, id],
  sections: `sections_found AS (SELECT decode(unnest(${add(indexes)}::text[]), 'hex') AS payee_index)`,
  within: "o.payee_index = l.payee_index"
})

const onlySection = "sections_found AS (SELECT 1)"

/** One range of an index. */
const single = (name: string, sort: ReadonlyArray<SortColumn>, within: string): Source => ({
  name,
  sort,
  sections: onlySection,
  within
})

const unsettledStates: ReadonlyArray<OperationState> = ["accepted", "submitting", "submitted", "indeterminate"]

/** The source of a list. The filter may leave out further rows of it. Null: the filter contradicts itself. */
export const sourceOf = (filter: SearchFilter, add: AddParameter): Source | null => {
  const { client_id, idempotency_key, payee_indexes, queue, reference, resource_owner } = filter
  const states = filter.states === undefined || filter.states.length === 0 ? null : filter.states
  if (idempotency_key !== undefined) {
    const ofClient = client_id === undefined ? "" : ` AND o.client_id = ${add(client_id)}`
    const within = `o.idempotency_key = ${add(idempotency_key)}${ofClient}`
    return single("key", [named("o.client_id"), named("o.subject")], within)
  }
  if (reference !== undefined) return single("reference", [since, id], `o.reference = ${add(reference)}`)
  if (payee_indexes !== undefined) return ofPayee(payee_indexes, add)
  if (resource_owner !== undefined) return ofOwner(resource_owner, filter, add)
  if (queue === "reversed") return reversed(filter, add)
  if (queue === "failed") return failed(filter, add)
  // They are held, too. A list of the first ones alone could be that of one client.
  if (queue === "approval") return unsettled(["accepted"], { ...filter, queue: "held" }, add)
  if (queue === "under_review") return byProvider("review", "o.under_review", filter, add)
  if (queue === "waiting") return byProvider("waiting", mayWait, filter, add)
  const ofQueue = queue === undefined
    ? unsettledStates
    : queue === "held"
    ? ["accepted" as const]
    : ["indeterminate" as const]
  const wanted = states ?? (queue === undefined ? null : ofQueue)
  if (wanted !== null && (queue !== undefined || wanted.every((state) => unsettledStates.includes(state)))) {
    const both = [...new Set(wanted)].filter((state) => ofQueue.includes(state))
    return both.length === 0 ? null : unsettled(both, filter, add)
  }
  return single("change", [changedAt("(o.change_position + 0)"), id], "true")
}

/** The form of a sort value, as text. */
type SortForm = "instant" | "position" | "name" | "id"

const forms: Readonly<Record<SortForm, RegExp>> = {
  // Milliseconds since the epoch, up to the year 9999.
  instant: /^\d{1,15}$/,
  position: /^\d{1,18}$/,
  name: /^[\x21-\x7e]{1,255}$/,
  id: idPattern
}

/** `list` names the index that the list follows, and its direction: a position of one list means nothing in another. */
export const encodePosition = (list: string, values: ReadonlyArray<string>): string =>
  Base64Url.encode(JSON.stringify([1, list, ...values]))

/** The sort values of a position. Null: it is malformed, or of another list. */
export const decodePosition = (
  text: string,
  list: string,
  sort: ReadonlyArray<SortForm>
): ReadonlyArray<string> | null => {
  const values = Schema.Tuple([
    Schema.Literal(1),
    Schema.Literal(list),
    ...sort.map((form) => Schema.String.check(Schema.isPattern(forms[form])))
  ])
  const decoded = Schema.decodeUnknownOption(Schema.fromJsonString(values))(
    Result.getOrElse(Base64Url.decodeString(text), () => "")
  )
  return decoded._tag === "None" ? null : decoded.value.slice(2).map(String)
}
