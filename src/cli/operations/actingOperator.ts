/**
 * Who acts on operations by a command, and why: for the record of `OperatorActions`.
 */
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as os from "node:os"
import type { ActingOperator } from "../../domain/operators/OperatorView.ts"

const text = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))

/** The name of the operator. */
export const operatorFlag = {
  operator: Flag.String("operator").pipe(
    Flag.withDescription(
      "Name of the operator, for the record (OPERATOR); by default the user of the operating system"
    ),
    Flag.withFallbackConfig(Config.String("OPERATOR")),
    Flag.withSchema(text(255)),
    Flag.optional
  )
}

export const actingFlags = {
  ...operatorFlag,
  reason: Flag.String("reason").pipe(
    Flag.withDescription("Reason, for the record"),
    Flag.withSchema(text(1024)),
    Flag.optional
  )
}

/** The user of the process; its number if the system has no name for it, as in many containers. */
const systemUser = (): string => {
  try {
    return os.userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

/** The name of the operator, or of the user of the operating system. */
export const operatorName = ({ operator }: Command.Command.Config.Infer<typeof operatorFlag>): string =>
  Option.getOrElse(operator, systemUser)

/** The operator of a command. */
export const actingOperator = (
  { operator, reason }: Command.Command.Config.Infer<typeof actingFlags>
): ActingOperator => ({
  name: operatorName({ operator }),
  via: "command",
  reason: Option.getOrNull(reason)
})
