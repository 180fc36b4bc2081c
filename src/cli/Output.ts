/**
 * Output of the commands: the result is one JSON document on standard output, or text that a command lays out for people. All
 * else goes to standard error.
 */
import * as CliOutput from "effect/cli/CliOutput"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import { Operation } from "../domain/Operation.ts"
import { OperatorSummary } from "../domain/operators/OperatorView.ts"
import { escapeInJson, replaceHidden } from "../domain/VisibleText.ts"
import { oneLine } from "../node/process/failureLine.ts"
import { invocation, toInvocation } from "../node/process/Invocation.ts"

/**
 * A document as JSON, with escapes in place of hidden characters. `JSON.stringify` escapes U+0000 to U+001F alone; a terminal obeys
 * U+0080 to U+009F too, and reorders text by others.
 */
export const toJson = (document: unknown): string => replaceHidden(JSON.stringify(document), escapeInJson)

/** Prints the result of a command, or one line of a result that is a stream of lines. */
export const print = (result: unknown): Effect.Effect<void> => Console.log(toJson(result))

/** An operation as clients see it. */
export const publicForm = Schema.encodeSync(Operation)

/** An operation as operators see it in a list. */
export const operatorForm = Schema.encodeSync(OperatorSummary)

/** A command failed for a reason that its caller can correct. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { message: Schema.String }) {}

/** The call that shows the help of a command. Its path begins with the name of the program. */
const helpCall = (commandPath: ReadonlyArray<string>) => [invocation, ...commandPath.slice(1), "--help"].join(" ")

/** The examples of the help, as they are typed in a clone or in an installed package. */
const typed = (event: CliOutput.Presenter.Help): CliOutput.Presenter.Help => {
  const { examples = [] } = event.helpDoc
  const toTyped = examples.map((example) => ({ ...example, command: toInvocation(example.command) }))
  return { ...event, helpDoc: { ...event.helpDoc, examples: toTyped } }
}

/** A message of the parser, without the words that repeat "Expected". */
const withoutNoise = (message: string): string => message.replaceAll("Expected: Schema validation failed: ", "")

/** The required flags that the call lacks, all of them: the parser ends at the first one. */
const missingFlags = (
  { errors, helpDoc }: CliOutput.Presenter.InvalidInvocation,
  typed: ReadonlyArray<string>
): ReadonlyArray<string> => {
  if (errors.every(({ _tag }) => _tag !== "MissingOption")) return []
  const isTyped = (name: string) => typed.some((word) => word === `--${name}` || word.startsWith(`--${name}=`))
  const missing = helpDoc.flags.filter(({ name, required }) => required && !isTyped(name)).map(({ name }) =>
    `--${name}`
  )
  return missing.length < 2 ? [] : [`Missing required flags: ${missing.join(", ")}`]
}

/** Requested help goes to standard output. An invalid call gets one line on standard error. */
export const presenter: CliOutput.Presenter = {
  present: (event) => {
    if (event._tag === "Help" && event.reason === "Requested") return CliOutput.defaultPresenter.present(typed(event))
    if (event._tag === "Help") return Console.error(`error: a command is missing (see ${helpCall(event.commandPath)})`)
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    return Effect.gen(function*() {
      const stdio = yield* Effect.serviceOption(Stdio.Stdio)
      const missing = missingFlags(event, Option.isNone(stdio) ? [] : yield* stdio.value.args)
      const messages = missing.length > 0 ? missing : event.errors.map((error) => withoutNoise(error.message))
      yield* Console.error(`error: ${oneLine(messages.join("; "))} (see ${helpCall(event.commandPath)})`)
    })
  }
}
