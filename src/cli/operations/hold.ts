/**
 * `operations hold`: holds accepted operations, so that no worker claims them.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { SubmissionQueue } from "../../services/SubmissionQueue.ts"
import { CommandFailed, print } from "../Output.ts"

export const hold = Command.make(
  "hold",
  {
    all: Flag.Boolean("all").pipe(Flag.withDescription("Hold every accepted operation"), Flag.withDefault(false))
  },
  Effect.fn(function*({ all }) {
    if (!all) {
      return yield* new CommandFailed({
        message: "specify --all: single operations cannot be held, only cancelled (see operations cancel)"
      })
    }
    const queue = yield* SubmissionQueue
    yield* print({ held: yield* queue.holdAll })
  })
).pipe(
  Command.withDescription(
    "Hold all accepted operations. Use it after a rollback that the gateway cannot detect, such as a restored disk "
      + "snapshot"
  ),
  Command.withShortDescription("Hold all accepted operations")
)
