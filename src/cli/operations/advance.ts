/**
 * `operations advance`: records what the operator knows of an operation from another source.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { strict } from "../../domain/InvalidMember.ts"
import { OperationFailure, OperationId, operationStates, type Outcome } from "../../domain/Operation.ts"
import { OperatorEvidence } from "../../domain/OperatorEvidence.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { accountableFlags, accountableOperator, id, jsonFlag, optionalText } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"

/** Its error names each member that does not fit, below the name of the flag. */
const decodeFlag = Schema.decodeUnknownExit(Schema.Struct({ "--evidence": OperatorEvidence }), strict)

const toOutcome = (
  state: Outcome["state"],
  code: Option.Option<string>,
  message: Option.Option<string>
): Effect.Effect<Outcome, CommandFailed> => {
  const isFailure = Option.isSome(code) || Option.isSome(message)
  if (state !== "failed") {
    return isFailure
      ? Effect.fail(new CommandFailed({ message: "--failure-code and --failure-message need --to failed" }))
      : Effect.succeed({ state })
  }
  if (Option.isNone(code) || Option.isNone(message)) {
    return Effect.fail(new CommandFailed({ message: "--to failed requires --failure-code and --failure-message" }))
  }
  return Effect.succeed({ state, failure: { code: code.value, message: message.value } })
}

const outcomeFlags = {
  to: Flag.Literals("to", operationStates).pipe(Flag.withDescription("State to move to")),
  evidence: jsonFlag("evidence").pipe(
    Flag.withDescription(
      "The provider's answer, as JSON with question, asked, asked_at, reference, and answer or document_sha256; - for "
        + "standard input; required to leave indeterminate"
    ),
    Flag.withDefault(null)
  ),
  failureCode: optionalText(
    "failure-code",
    "Stable code of the failure, with --to failed",
    OperationFailure.fields.code
  ),
  failureMessage: optionalText(
    "failure-message",
    "Explanation of the failure, with --to failed",
    OperationFailure.fields.message
  )
}

/** What the flags say of the operation. */
const toAdvance = Effect.fn(function*(
  { evidence, failureCode, failureMessage, to }: Command.Command.Config.Infer<typeof outcomeFlags>
) {
  return {
    evidence: evidence === null ? null : (yield* decodeFlag({ "--evidence": evidence }))["--evidence"],
    to: yield* toOutcome(to, failureCode, failureMessage)
  }
})

export const advance = Command.make(
  "advance",
  { id: id(OperationId, "Operation"), outcome: outcomeFlags, ...accountableFlags },
  Effect.fn(function*({ id, outcome, ...acting }) {
    const actions = yield* OperatorActions
    yield* print(publicForm(yield* actions.advance(yield* toAdvance(outcome), id, accountableOperator(acting))))
  })
).pipe(Command.withDescription("Record a transition of an operation, with its reason and its evidence"))
