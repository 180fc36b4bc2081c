import { formatCount } from "../data/format.ts"
import { formatMoment } from "./scales.ts"
import { type Grid, sampled, type Series } from "./series.ts"

/** The values of a plot as a table, at some of its times. */
export const ChartTable = ({ grid, series, title, unit }: {
  readonly title: string
  readonly unit: string
  readonly grid: Grid
  readonly series: ReadonlyArray<Series>
}) => (
  <details class="chart-table">
    <summary>
      Values as a table<span class="visually-hidden">: {title}</span>
    </summary>
    <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: values`}>
      <table>
        <caption class="visually-hidden">{title}, {unit}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ label, name }) => <th key={name} scope="col" class="number">{label}</th>)}
          </tr>
        </thead>
        <tbody>
          {sampled(grid).map((index) => (
            <tr key={index}>
              <th scope="row">{formatMoment(grid.times[index]!)}</th>
              {series.map(({ name, values }) => <td key={name} class="number">{formatCount(values[index] ?? 0)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </details>
)
