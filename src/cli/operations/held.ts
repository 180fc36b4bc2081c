/**
 * `operations held`: why operations are held, and what to do next.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { HeldOperations, nextStepOf } from "../../domain/operators/HeldOperations.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { print } from "../Output.ts"

const encode = Schema.encodeSync(HeldOperations)

export const held = Command.make(
  "held",
  {},
  Effect.fn(function*() {
    const found = yield* OperationSearch.use((search) => search.held)
    yield* print({ ...encode(found), next: nextStepOf(found) })
  })
).pipe(
  Command.withDescription(
    "Count the held operations by provider and reason, with the last comparison with the witness and the next step. operations list "
      + "--held lists them"
  ),
  Command.withShortDescription("Show why operations are held, and the next step")
)
