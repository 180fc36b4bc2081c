import type { ComponentChildren } from "preact"
import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount } from "../data/format.ts"
import { to } from "../data/route.ts"
import { Age } from "../parts/Time.tsx"

const sum = (rows: ReadonlyArray<{ readonly count: number }>): number =>
  rows.reduce((total, { count }) => total + count, 0)

const oldestOf = ({ oldest }: Overview, conditions: ReadonlyArray<string>): string | undefined =>
  oldest.filter(({ condition }) => conditions.includes(condition)).map(({ since }) => since).sort()[0]

const Tile = ({ address, attention = false, children, count, name }: {
  readonly name: string
  readonly count: number
  readonly address: string
  /** Whether a count above 0 asks for people. */
  readonly attention?: boolean
  readonly children: ComponentChildren
}) => (
  <li>
    <a class={attention && count > 0 ? "tile tile-attention" : "tile"} href={address}>
      <span class="tile-name">
        {name}
        {attention && count > 0 && (
          <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
            <path d="M6 1.2 11.2 10.5H.8zM6 4.8v2.4M6 8.9v.1" />
          </svg>
        )}
      </span>
      <span class="tile-count">{formatCount(count)}</span>
      <span class="secondary">{children}</span>
    </a>
  </li>
)

/** Milliseconds. Work that is due for longer needs people, as the command `status` says. */
const lateAfter = 60_000

const inProgress = ["accepted", "submitting", "submitted"]

/** The numbers that tell whether people have to act. Each leads to its operations. */
export const Tiles = ({ figures }: { readonly figures: Overview }) => {
  const oldest = (conditions: ReadonlyArray<string>) => {
    const since = oldestOf(figures, conditions)
    return since === undefined ? "None" : (
      <>
        oldest <Age since={since} />
      </>
    )
  }
  const late = figures.due.map(({ since }) => since).sort()[0]
  const { held, operations, under_review } = figures
  return (
    <ul class="tiles" aria-label="Operations now">
      <Tile
        name="In progress"
        count={sum(operations.filter(({ state }) => inProgress.includes(state)))}
        address={to(["queues", "all"])}
      >
        {oldest(inProgress)}
      </Tile>
      <Tile
        name="Due work"
        count={sum(figures.due)}
        address="#due-work"
        attention={late !== undefined && Date.parse(figures.at) - Date.parse(late) > lateAfter}
      >
        {late === undefined ? "Nothing is due" : (
          <>
            due for <Age since={late} />
          </>
        )}
      </Tile>
      <Tile
        name="Indeterminate"
        count={sum(operations.filter(({ state }) => state === "indeterminate"))}
        address={to(["queues", "indeterminate"])}
        attention
      >
        {oldest(["indeterminate"])}
      </Tile>
      <Tile name="Held" count={sum(held)} address={to(["queues", "held"])} attention>{oldest(["held"])}</Tile>
      <Tile name="Under review" count={sum(under_review)} address={to(["queues", "under_review"])} attention>
        {oldest(["under_review"])}
      </Tile>
    </ul>
  )
}
