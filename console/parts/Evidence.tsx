import { formatName } from "../data/format.ts"
import { Copy } from "./Copy.tsx"

/** Characters of a value that are shown at once. */
const shownLength = 240

const entriesOf = (value: object): ReadonlyArray<readonly [string, unknown]> =>
  Array.isArray(value) ? value.map((item, at) => [String(at + 1), item] as const) : Object.entries(value)

const Value = ({ value }: { readonly value: unknown }) => {
  if (typeof value === "object" && value !== null) {
    const entries = entriesOf(value)
    return entries.length === 0 ? <span class="none">Empty</span> : (
      <dl>
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{/^[a-z0-9_]+$/.test(name) ? formatName(name) : name}</dt>
            <dd>
              <Value value={value} />
            </dd>
          </div>
        ))}
      </dl>
    )
  }
  const text = value === null ? "None" : String(value)
  return text.length <= shownLength ? <span>{text}</span> : (
    <details>
      <summary>{text.slice(0, shownLength)}…</summary>
      <p>{text}</p>
    </details>
  )
}

/** Whether there is anything to show. */
export const isEvidence = (value: unknown): boolean =>
  value !== null && value !== undefined && (typeof value !== "object" || Object.keys(value).length > 0)

/** Evidence as names and values. Values within values are indented, and long ones folded. A copy has all of it as JSON. */
export const Evidence = ({ title, value }: { readonly title: string; readonly value: unknown }) => (
  <section class="evidence" aria-label={title}>
    <Value value={value} />
    <Copy label="Copy as JSON" what={title} text={JSON.stringify(value, null, 2)} />
  </section>
)
