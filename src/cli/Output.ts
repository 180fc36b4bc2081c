/**
 * Output of the commands: the result is one JSON document on standard output. All other text goes to standard error.
 */
import * as CliOutput from "effect/cli/CliOutput"
import * as Console from "effect/Console"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Operation } from "../domain/Operation.ts"
import { oneLine } from "../node/explain.ts"

/** Prints the result of a command, or one line of a result that is a stream of lines. */
export const print = (result: unknown): Effect.Effect<void> => Console.log(JSON.stringify(result))

/** An operation as clients see it. */
export const publicForm = Schema.encodeSync(Operation)

/** A command failed for a reason that its caller can correct. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { message: Schema.String }) {}

/** Requested help goes to standard output. An invalid call gets one line on standard error. */
export const presenter: CliOutput.Presenter = {
  present: (event) => {
    if (event._tag === "Help" && event.reason === "Implicit") {
      return Console.error(`error: a command is missing (see ${event.commandPath.join(" ")} --help)`)
    }
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const reasons = oneLine(event.errors.map((error) => error.message).join("; "))
    return Console.error(`error: ${reasons} (see ${event.commandPath.join(" ")} --help)`)
  }
}
