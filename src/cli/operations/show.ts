/**
 * `operations show`: shows an operation, and how it came to its state.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { HistoryEntry, OperationId } from "../../domain/Operation.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { id } from "../Flags.ts"
import { print, publicForm } from "../Output.ts"

const encodeHistory = Schema.encodeSync(Schema.Array(HistoryEntry))

export const show = Command.make(
  "show",
  { id: id(OperationId, "Operation") },
  Effect.fn(function*({ id }) {
    const ledger = yield* OperationLedger
    const operation = publicForm(yield* ledger.show(id))
    const return_reason = yield* ledger.returnReason(id)
    yield* print({ operation, return_reason, history: encodeHistory(yield* ledger.history(id)) })
  })
).pipe(Command.withDescription("Show an operation, why a worker returned it without sending, and its history"))
