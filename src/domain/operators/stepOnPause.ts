/**
 * What people do about a pause of a provider, by its reason.
 */
import { isOfOperation, pauseReasons } from "./FiguresForm.ts"

/** Whether a reason begins so. */
const begins = (start: string) => (reason: string): boolean => reason.startsWith(start)

/** Whether a reason is an answer that the adapter does not declare, and the rest fits. */
const undeclared = (rest: RegExp) => (reason: string): boolean =>
  reason.startsWith(`${pauseReasons.undeclared}: `) && rest.test(reason.slice(pauseReasons.undeclared.length + 2))

/** The steps. The first that fits is told. */
const pauseSteps: ReadonlyArray<readonly [fits: (reason: string) => boolean, next: string]> = [
  [
    (reason) => begins(pauseReasons.credentials)(reason) || undeclared(/^status 40[13]\b/)(reason),
    "Check the credentials of the provider, such as its key, and restart the workers with the right ones."
  ],
  [
    begins(pauseReasons.probe),
    "Check the base URL of the provider and the paths of its adapter, and restart the workers with the right ones. No operation is sent "
    + "before a probe passes."
  ],
  [
    undeclared(/status 404\b/),
    "Check the base URL of the provider and the paths of its adapter, and restart the workers with the right ones. Until then each "
    + "of their tries leaves one operation indeterminate."
  ],
  [
    undeclared(/^status 5\d\d\b/),
    "The provider fails: wait. A worker tries one operation at a time. If it lasts, ask the provider."
  ],
  [
    begins(pauseReasons.undeclared),
    "Compare the adapter with the documentation of the provider, and declare the answer. Until then each try of a worker "
    + "leaves one operation indeterminate."
  ],
  [
    begins(pauseReasons.circuit),
    "Check the base URL of the provider. If it is right, wait. If it lasts, ask the provider, and check the network of the workers."
  ],
  [begins(pauseReasons.clock), "Set the clock of the machine."],
  [
    isOfOperation,
    "The operation was never sent. If its request is wrong, cancel it: `financial-agents-gateway operations cancel ID`. If all of its "
    + "type fail so, repair the adapter."
  ]
]

const otherStep = "Repair the reason: it is in the settings, the adapter or the network of the worker."

/** The end of the reason of a pause that one operation caused. */
const namedOperation = / \(operation (?<id>[\da-f-]{36})\)$/u

/** The first step that fits the reason of a pause. Then the workers go on by themselves. */
export const stepOnPause = (reason: string): string => {
  const step = pauseSteps.find(([fits]) => fits(reason))?.[1] ?? otherStep
  const { id = "ID" } = namedOperation.exec(reason)?.groups ?? {}
  return step.replace("cancel ID", `cancel ${id}`)
}
