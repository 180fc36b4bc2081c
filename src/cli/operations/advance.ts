/**
 * `operations advance`: records a transition, with its evidence.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { decodeStrictly } from "../../domain/firstIssues.ts"
import { OperationFailure, OperationId, operationStates, type Outcome } from "../../domain/Operation.ts"
import { OperatorEvidence } from "../../domain/OperatorEvidence.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { id, jsonFlag } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { operatorFlag, operatorName } from "./actingOperator.ts"

/** Its error names each member that does not fit, below the name of the flag. */
const decodeFlag = decodeStrictly(Schema.Struct({ "--evidence": OperatorEvidence }))

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

export const advance = Command.make(
  "advance",
  {
    id: id(OperationId, "Operation"),
    to: Flag.Literals("to", operationStates).pipe(Flag.withDescription("State to move to")),
    evidence: jsonFlag("evidence").pipe(
      Flag.withDescription(
        "The provider's answer, as JSON with question, asked, asked_at, reference, and answer or document_sha256; - for "
          + "standard input; required to leave indeterminate"
      ),
      Flag.withDefault(null)
    ),
    failureCode: Flag.String("failure-code").pipe(
      Flag.withDescription("Stable code of the failure, with --to failed"),
      Flag.withSchema(OperationFailure.fields.code),
      Flag.optional
    ),
    failureMessage: Flag.String("failure-message").pipe(
      Flag.withDescription("Explanation of the failure, with --to failed"),
      Flag.withSchema(OperationFailure.fields.message),
      Flag.optional
    ),
    ...operatorFlag
  },
  Effect.fn(function*({ evidence, failureCode, failureMessage, id, operator, to }) {
    const ledger = yield* OperationLedger
    const recorded = evidence === null ? null : {
      by: "operator",
      operator: operatorName({ operator }),
      ...(yield* decodeFlag({ "--evidence": evidence }))["--evidence"]
    }
    const outcome = yield* toOutcome(to, failureCode, failureMessage)
    const { revision } = yield* ledger.show(id)
    yield* print(publicForm(yield* ledger.transition(id, revision, outcome, recorded)))
  })
).pipe(Command.withDescription("Record a transition of an operation, with its evidence"))
