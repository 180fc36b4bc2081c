import { useEffect, useId, useRef } from "preact/hooks"
import { formatName } from "../data/format.ts"
import { navigate } from "../data/route.ts"

/** Several states are separated by commas. */
const states = ["accepted", "submitting", "submitted", "indeterminate", "succeeded", "failed", "cancelled"]

const Choice = ({ label, member, name, options, value }: {
  readonly label: string
  readonly member: string
  readonly name: (option: string) => string
  readonly options: ReadonlyArray<string>
  readonly value: string
}) => {
  const id = useId()
  // The value stays selectable while the options are not read yet.
  const all = value === "" || options.includes(value) ? options : [value, ...options]
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} name={member} value={value}>
        <option value="">All</option>
        {all.map((option) => <option key={option} value={option}>{name(option)}</option>)}
      </select>
    </div>
  )
}

const Entry = (
  { label, member, value }: { readonly label: string; readonly member: string; readonly value: string }
) => {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  // Not by a property: text that is being typed must outlive a refresh of the page.
  useEffect(() => {
    input.current!.value = value
  }, [value])
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} ref={input} name={member} autocomplete="off" spellcheck={false} placeholder="Any" />
    </div>
  )
}

/** Filters of a queue. They are part of the address, so that it can be shared. */
export const QueueFilters = ({ address, codes, name, providers, query }: {
  readonly name: string
  readonly codes: ReadonlyArray<string>
  readonly providers: ReadonlyArray<string>
  readonly query: URLSearchParams
  readonly address: (
    name: string,
    query: URLSearchParams,
    change: Readonly<Record<string, string | undefined>>
  ) => string
}) => {
  const form = useRef<HTMLFormElement>(null)
  const apply = (event?: Event) => {
    event?.preventDefault()
    const given = Object.fromEntries(
      [...new FormData(form.current!)].map(([member, value]) => [member, String(value).trim()])
    )
    navigate(address(name, new URLSearchParams(), given))
  }
  const value = (member: string) => query.get(member) ?? ""
  return (
    <form class="filters" ref={form} onSubmit={apply} onChange={() => apply()} aria-label="Filters">
      {(name === "all" || query.has("state")) && (
        <Choice
          label="State"
          member="state"
          name={(option) => option.split(",").map(formatName).join(" or ")}
          options={states}
          value={value("state")}
        />
      )}
      <Choice
        label="Provider"
        member="provider"
        name={(provider) => provider}
        options={providers}
        value={value("provider")}
      />
      {(name === "failed" || query.has("failure_code")) && (
        <Choice
          label="Code"
          member="failure_code"
          name={(code) => code}
          options={codes}
          value={value("failure_code")}
        />
      )}
      {query.has("claimed_by") && <Entry label="Worker" member="claimed_by" value={value("claimed_by")} />}
      <Entry label="Client" member="client_id" value={value("client_id")} />
      <Entry label="Owner" member="resource_owner" value={value("resource_owner")} />
      <button type="submit" class="visually-hidden-until-focused">Apply filters</button>
    </form>
  )
}
