/**
 * `operations review`: puts an operation under review, or ends the review.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { OperationId } from "../../domain/Operation.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { id } from "../Flags.ts"
import { print, publicForm } from "../Output.ts"

export const review = Command.make(
  "review",
  {
    id: id(OperationId, "Operation"),
    clear: Flag.Boolean("clear").pipe(
      Flag.withDescription("End the review. The time until the next review starts now"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(function*({ clear, id }) {
    const ledger = yield* OperationLedger
    yield* print(publicForm(yield* ledger.review(id, !clear)))
  })
).pipe(Command.withDescription("Put an operation under review, or end the review"))
