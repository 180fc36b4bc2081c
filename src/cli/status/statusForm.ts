/**
 * The status as JSON.
 */
import * as Schema from "effect/Schema"
import { Overview } from "../../admin/console/ConsoleApi.ts"
import { toInvocation } from "../../node/Invocation.ts"
import { findProblems, type Status } from "./findProblems.ts"

const { flow: _, ...fields } = Overview.fields

/** The figures of the ledger, in the form that the console's page gets. */
export const Figures = Schema.Struct(fields)

const encodeFigures = Schema.encodeSync(Figures)

/** The status for programs. `command` is the call as it is typed, or null. */
export const statusForm = (status: Status) => ({
  embedded: status.embedded,
  migrated: status.migrated,
  figures: status.figures === null ? null : encodeFigures(status.figures),
  problems: findProblems(status).map(({ command, message }) => ({
    message,
    command: command === null ? null : toInvocation(command)
  }))
})
