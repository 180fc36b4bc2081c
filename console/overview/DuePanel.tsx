import type { Overview } from "../../src/operator/console/ConsoleApi.ts"
import { formatCount } from "../data/format.ts"
import { Panel } from "../parts/Panel.tsx"
import { Age } from "../parts/Time.tsx"

const names: Readonly<Record<string, string>> = {
  claim: "Claims",
  take_over: "Take-overs of returned claims",
  rescue: "Rescues of stale claims",
  read_status: "Status reads",
  examine: "Status reads of held operations"
}

/** The figures count no further. */
const maxCount = 1000

/** Work that components should have begun, and for how long the first of it has been due. */
export const DuePanel = ({ due }: { readonly due: Overview["due"] }) => (
  <Panel id="due-work" title="Due work" aside={<span class="secondary">not begun yet</span>}>
    {due.length === 0 ?
      <p class="calm">Nothing is due. The workers keep up.</p> :
      (
        <div class="scroll" tabIndex={0} role="region" aria-label="Due work">
          <table>
            <thead>
              <tr>
                <th scope="col">Work</th>
                <th scope="col">Provider</th>
                <th scope="col" class="number">Operations</th>
                <th scope="col" class="number">Due for</th>
              </tr>
            </thead>
            <tbody>
              {due.map(({ count, provider, since, work }) => (
                <tr key={`${provider} ${work}`}>
                  <th scope="row">{names[work] ?? work}</th>
                  <td>{provider}</td>
                  <td class="number">{count >= maxCount ? `${formatCount(maxCount)} or more` : formatCount(count)}</td>
                  <td class="number">
                    <Age since={since} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
  </Panel>
)
