/**
 * `operations cancel`: cancels an operation that no worker has claimed.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { OperationId } from "../../domain/Operation.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { id } from "../Flags.ts"
import { print, publicForm } from "../Output.ts"

export const cancel = Command.make(
  "cancel",
  {
    id: id(OperationId, "Operation"),
    reason: Flag.String("reason").pipe(
      Flag.withDescription("Reason, for the history"),
      Flag.withDefault("cancelled by an operator")
    )
  },
  Effect.fn(function*({ id, reason }) {
    const ledger = yield* OperationLedger
    yield* print(publicForm(yield* ledger.cancel(id, { by: "operator", reason })))
  })
).pipe(Command.withDescription("Cancel an operation that no worker has claimed"))
