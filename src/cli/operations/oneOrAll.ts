import * as Argument from "effect/cli/Argument"
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperationId } from "../../domain/Operation.ts"
import { CommandFailed } from "../Output.ts"

/** The id of an operation, or `--all`. `description` is that of the flag. */
export const oneOrAllFlags = (description: string) => ({
  id: Argument.String("id").pipe(
    Argument.withSchema(OperationId),
    Argument.withDescription("Operation"),
    Argument.optional
  ),
  all: Flag.Boolean("all").pipe(Flag.withDescription(description), Flag.withDefault(false))
})

type OneOrAll = Command.Command.Config.Infer<ReturnType<typeof oneOrAllFlags>>

/** The id, or null for all operations. Fails unless the call names exactly one of them. */
export const oneOrAll = ({ all, id }: OneOrAll): Effect.Effect<OperationId | null, CommandFailed> =>
  all === Option.isSome(id)
    ? Effect.fail(new CommandFailed({ message: "specify exactly one of the id of an operation and --all" }))
    : Effect.succeed(Option.getOrNull(id))
