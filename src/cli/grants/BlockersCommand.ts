/**
 * `grants blockers`: lists or ends the database sessions that may block a revocation.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Blocker, revocationPatience } from "../../domain/operators/GrantsBlocked.ts"
import { GrantBlockers, TerminatedBlocker } from "../../services/GrantBlockers.ts"
import { Lifetime } from "../Flags.ts"
import { print } from "../Output.ts"

const encodeBlockers = Schema.encodeSync(Schema.Array(Blocker))
const encodeTerminated = Schema.encodeSync(Schema.Array(TerminatedBlocker))

export const blockers = Command.make(
  "blockers",
  {
    olderThan: Flag.String("older-than").pipe(
      Flag.withDescription("Minimum age of the transactions, such as 10s or 1m (default: 5s)"),
      Flag.withDefault(`${Duration.toSeconds(revocationPatience)}s`),
      Flag.withSchema(Lifetime)
    ),
    terminate: Flag.Boolean("terminate").pipe(
      Flag.withDescription("End these sessions, except sessions that wait for another session"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(function*({ olderThan, terminate }) {
    const sessions = yield* GrantBlockers
    yield* print({
      blockers: terminate
        ? encodeTerminated(yield* sessions.terminate(olderThan))
        : encodeBlockers(yield* sessions.list(olderThan))
    })
  })
).pipe(
  Command.withDescription(
    "List the database sessions that may block a revocation: their transactions wrote or locked rows of grants"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway grants blockers",
      description: "List the sessions that may block a revocation"
    },
    { command: "financial-agents-gateway grants blockers --terminate", description: "End these sessions" }
  ])
)
