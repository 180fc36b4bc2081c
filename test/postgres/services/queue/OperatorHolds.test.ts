/** An operator's hold of any operation: no failover ends it. Those of operations that wait for an approval: `Approvals.test.ts`. */
import * as l from "../../../fixtures/ledger/LedgerStories.ts"
import { readTerms } from "../../../fixtures/ledger/Queue.ts"

const [none, one] = [l.claims([]), l.claims([0])]
const examine = [l.takeHeld([0]), l.pass(readTerms.rescue_after)]
/** What is claimed before the release. */
const holds: Readonly<Record<string, l.Story>> = {
  "hold, failover, status read": [l.hold(), none, l.failOver, none, examine, none],
  "failover, hold, status read": [l.failOver, l.hold(), none, examine, none],
  "failover, examination, hold": [l.failOver, examine, l.hold(), none],
  "hold, hold of all, status read": [l.hold(), l.holdAll, none, examine, none],
  "hold, late report, status read": [l.hold(), l.report(), none, examine, none],
  "hold, release of all": [l.hold(), l.releaseAll, none],
  "hold, failover, release of all, status read": [l.hold(), l.failOver, l.releaseAll, none, examine, none]
}

l.tell("an operator's hold", {
  ...Object.fromEntries(
    Object.entries(holds).map(([name, story]) => [
      `ends with the release of the operation alone: ${name}`,
      [l.inState("accepted"), story, l.release(), one]
    ])
  ),
  "does not come back with a failover after its release": [
    [l.inState("accepted"), l.hold(), l.failOver, examine, l.release(), l.failOver, l.releaseAll, one]
  ]
})
