/**
 * The admin listener of a command: `--admin-port` and `--admin-host`.
 */
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Option from "effect/Option"
import { Port } from "./Flags.ts"

export const adminFlags = {
  adminPort: Flag.String("admin-port").pipe(
    Flag.withDescription("Port of a listener for operators, with /metrics (ADMIN_PORT); none by default"),
    Flag.withFallbackConfig(Config.String("ADMIN_PORT")),
    // Not 0: a scraper must know the port.
    Flag.withSchema(Port({ from: 1, variable: "ADMIN_PORT" })),
    Flag.optional
  ),
  adminHost: Flag.String("admin-host").pipe(
    Flag.withDescription("Address of that listener (ADMIN_HOST) (default: 127.0.0.1). /metrics asks for no credential"),
    Flag.withFallbackConfig(Config.String("ADMIN_HOST")),
    Flag.withDefault("127.0.0.1")
  )
}

interface AdminOptions {
  readonly adminPort: Option.Option<number>
  readonly adminHost: string
}

/** The settings of the admin listener. Null: there is no admin listener. */
export const adminOf = ({ adminHost, adminPort }: AdminOptions) =>
  Option.match(adminPort, { onNone: () => null, onSome: (port) => ({ adminHost, adminPort: port }) })
