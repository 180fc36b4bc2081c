/**
 * `operations release`: lets workers submit held operations.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperationId } from "../../domain/Operation.ts"
import { SubmissionQueue } from "../../services/SubmissionQueue.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"

export const release = Command.make(
  "release",
  {
    id: Argument.String("id").pipe(
      Argument.withSchema(OperationId),
      Argument.withDescription("Operation"),
      Argument.optional
    ),
    all: Flag.Boolean("all").pipe(
      Flag.withDescription("Release every held operation. Use it only if the failover lost no data"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(function*({ all, id }) {
    const queue = yield* SubmissionQueue
    if (all === Option.isSome(id)) {
      return yield* new CommandFailed({ message: "specify exactly one of the id of an operation and --all" })
    }
    yield* print(
      Option.isSome(id) ? publicForm(yield* queue.release(id.value)) : { released: yield* queue.releaseAll }
    )
  })
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + "that the operation was never submitted"
  ),
  Command.withShortDescription("Let workers submit an operation that is held")
)
