/** `operations advance`: records what the operator knows of an operation from another source. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { RecordedFailure } from "../../domain/GatewayFailures.ts"
import { operationStates, type Outcome } from "../../domain/Operation.ts"
import { evidenceFaults } from "../../domain/OperatorEvidence.ts"
import type { Advance } from "../../domain/operators/OperatorView.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { actingFlags, actingOperator, jsonFlag, optionalText } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"
import { actOnAll, selectionFlags, toSelection } from "./selection.ts"

/** What a person may record: no transition leads to `accepted`. */
const targets = operationStates.filter((state) => state !== "accepted")

const outcomeFlags = {
  to: Flag.Literals("to", targets).pipe(
    Flag.withDescription(
      "State to move to. submitting: only for a held operation whose outcome you record next. cancelled: only if it was never sent"
    ),
    Flag.optional
  ),
  evidence: jsonFlag("evidence").pipe(
    Flag.withDescription(
      "The provider's answer, as JSON with question, asked, asked_at, reference, and answer or document_sha256; - for "
        + "standard input; required to leave indeterminate, and to end any operation that may have been sent. With --to failed, "
        + "asked_at is a minute or more after the last send. With \"reference_of\": "
        + "\"answer\" the reference is that of the answer, such as a case number, and not of the payment"
    ),
    Flag.withDefault(null)
  ),
  failureCode: optionalText(
    "failure-code",
    "Stable code of the failure, with --to failed",
    RecordedFailure.fields.code
  ),
  failureMessage: optionalText(
    "failure-message",
    "Explanation of the failure, with --to failed",
    RecordedFailure.fields.message
  )
}

type OutcomeFlags = Command.Command.Config.Infer<typeof outcomeFlags>

const isOfAnswer = Schema.is(Schema.Struct({ reference_of: Schema.Literal("answer") }))

/** Why the evidence cannot be that of all operations that match filters. */
const sharedFaults = (evidence: Schema.Json): ReadonlyArray<string> =>
  evidence === null ? [] : [
    ...evidenceFaults(evidence),
    ...isOfAnswer(evidence)
      ? []
      : ["one payment is not several operations: give the reference of the answer, and \"reference_of\": \"answer\""]
  ]

/** What the call lacks, all of it at once. If evidence alone is missing, the ledger says why it is needed. */
const missingOf = (
  { evidence, failureCode, failureMessage, to }: OutcomeFlags,
  reason: Option.Option<string>,
  selection: ReadonlyArray<string>
) => {
  const isTo = (...states: ReadonlyArray<Outcome["state"]>) => Option.exists(to, (state) => states.includes(state))
  const missing = [
    ...selection,
    ...Option.isNone(to) ? ["--to"] : [],
    ...Option.isNone(reason) ? ["--reason"] : [],
    ...isTo("failed") && Option.isNone(failureCode) ? ["--failure-code"] : [],
    ...isTo("failed") && Option.isNone(failureMessage) ? ["--failure-message"] : []
  ]
  const isOutcome = isTo("succeeded", "failed")
  return missing.length > 0 && isOutcome && evidence === null ? [...missing, "--evidence"] : missing
}

export const advance = Command.make(
  "advance",
  { outcome: outcomeFlags, selection: selectionFlags, ...actingFlags },
  Effect.fn(function*({ outcome, selection: chosen, ...acting }) {
    const { evidence, failureCode, failureMessage, to } = outcome
    const selected = yield* toSelection(chosen)
    const selection = typeof selected === "string" ? ["either the id of an operation or filters"] : []
    const missing = missingOf(outcome, acting.reason, selection)
    if (typeof selected === "string" || missing.length > 0 || Option.isNone(to) || Option.isNone(acting.reason)) {
      return yield* new CommandFailed({ message: `specify ${missing.join(", ")}` })
    }
    if (to.value !== "failed" && (Option.isSome(failureCode) || Option.isSome(failureMessage))) {
      return yield* new CommandFailed({ message: "--failure-code and --failure-message need --to failed" })
    }
    const failure = {
      code: Option.getOrElse(failureCode, () => ""),
      message: Option.getOrElse(failureMessage, () => "")
    }
    const advance: Advance = {
      evidence,
      to: to.value === "failed" ? { state: to.value, failure } : { state: to.value }
    }
    const operator = { ...actingOperator(acting), reason: acting.reason.value }
    const actions = yield* OperatorActions
    if ("id" in selected) return yield* print(publicForm(yield* actions.advance(advance, selected.id, operator)))
    const faults = sharedFaults(evidence)
    if (faults.length > 0) return yield* new CommandFailed({ message: `--evidence: ${faults.join("; ")}` })
    yield* actOnAll(selected.filter, {
      action: { to: to.value },
      apply: chosen.apply,
      operator,
      act: ({ operation: { id, revision } }) => Effect.as(actions.advance(advance, id, operator, revision), "done"),
      check: ({ operation }) => Effect.as(actions.checkAdvance(advance, operation, operator), "done")
    })
  })
).pipe(
  Command.withDescription(
    "Record a transition of an operation, with its reason and its evidence. With filters in place of an id it records the same of each "
      + "operation that matches, 1,000 at most; without --apply it changes nothing"
  ),
  Command.withShortDescription("Record a transition of an operation, or of all that match filters")
)
