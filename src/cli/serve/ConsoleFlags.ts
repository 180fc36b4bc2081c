/**
 * The console of `serve`: `--console` and `--operator`.
 */
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { manifest } from "../../node/process/Invocation.ts"
import { type ConsoleSettings, readConsoleSettings } from "../../operator/console/ConsoleSettings.ts"
import { operatorFlag, operatorName } from "../operations/actingOperator.ts"

export const consoleFlags = {
  console: Flag.Boolean("console").pipe(
    Flag.withDescription("Serve the console of operators on the admin listener (CONSOLE); it needs --admin-port"),
    Flag.withFallbackConfig(Config.Boolean("CONSOLE")),
    Flag.withDefault(false)
  ),
  ...operatorFlag
}

type ConsoleOptions = Command.Command.Config.Infer<typeof consoleFlags>

/** The settings of the console on the admin listener. Null: there is none. */
export const consoleOf = Effect.fnUntraced(
  function*(options: ConsoleOptions, admin: { readonly adminHost: string } | null) {
    if (!options.console) return null
    if (admin === null) {
      return yield* new InvalidSetting({ message: "--console needs --admin-port: set it to a free port" })
    }
    const settings: ConsoleSettings = yield* readConsoleSettings({
      host: admin.adminHost,
      operator: operatorName(options),
      version: manifest.version
    })
    return settings
  }
)
