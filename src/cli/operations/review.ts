/**
 * `operations review`: puts an operation under review, or ends the review.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { OperationId } from "../../domain/Operation.ts"
import { OperatorActions } from "../../services/OperatorActions.ts"
import { id } from "../Flags.ts"
import { print, publicForm } from "../Output.ts"
import { actingFlags, actingOperator } from "./actingOperator.ts"

export const review = Command.make(
  "review",
  {
    id: id(OperationId, "Operation"),
    clear: Flag.Boolean("clear").pipe(
      Flag.withDescription("End the review. The time until the next review starts now"),
      Flag.withDefault(false)
    ),
    ...actingFlags
  },
  Effect.fn(function*({ clear, id, ...acting }) {
    const actions = yield* OperatorActions
    const action = clear ? "end_review" : "review"
    yield* print(publicForm(yield* actions.perform(action, id, actingOperator(acting))))
  })
).pipe(Command.withDescription("Put an operation under review, or end the review"))
