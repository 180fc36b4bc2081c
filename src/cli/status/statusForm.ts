/**
 * The status as JSON.
 */
import * as Schema from "effect/Schema"
import { Figures } from "../../domain/FiguresForm.ts"
import { toInvocation } from "../../node/process/Invocation.ts"
import { findProblems, type Status } from "./findProblems.ts"

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
