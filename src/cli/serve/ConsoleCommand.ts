/**
 * `console`: the console of operators, as a preset of `GatewayApp` that serves nothing to clients.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as PostgresCluster from "../../cluster/PostgresCluster.ts"
import * as GatewayApp from "../../node/GatewayApp.ts"
import * as AdminListener from "../../node/http/AdminListener.ts"
import { addressOf } from "../../node/http/ListenAddress.ts"
import { Database } from "../../node/postgres/Database.ts"
import { manifest } from "../../node/process/Invocation.ts"
import { operatorConsole } from "../../node/process/OperatorConsole.ts"
import { readConsoleSettings } from "../../operator/console/ConsoleSettings.ts"
import { listenerPort, operatorFlag, operatorName, textOr } from "../Flags.ts"

const flags = {
  host: textOr(
    "host",
    "Address to listen on. Another one needs CONSOLE_OIDC_ISSUER",
    "127.0.0.1",
    Schema.String,
    "ADMIN_HOST"
  ),
  port: listenerPort("port", "Port to listen on", "ADMIN_PORT", "3001"),
  ...operatorFlag
}

export const consoleCommand = Command.make(
  "console",
  flags,
  Effect.fn(function*({ host, operator, port }) {
    const settings = yield* readConsoleSettings({
      host,
      operator: operatorName({ operator }),
      version: manifest.version
    })
    const announced = Effect.annotateLogs(Effect.logInfo("Console listening"), {
      host,
      port,
      url: addressOf(host, port)
    })
    return yield* Layer.launch(GatewayApp.layer({
      serves: "nothing",
      adminHost: host,
      adminPort: port,
      admin: AdminListener.layer(operatorConsole(settings)),
      database: Layer.succeed(Database, yield* Database),
      cluster: PostgresCluster.layer,
      migrate: false,
      started: Layer.effectDiscard(announced)
    }))
  })
).pipe(
  Command.withDescription(
    "Serve the console of operators, and /metrics. It prints a link that signs in once; with CONSOLE_OIDC_ISSUER, operators sign in there"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway console",
      description: "On this machine, with the embedded PostgreSQL in ./.data"
    },
    {
      command: "DATABASE_URL=postgres://gateway_writer@db/gateway financial-agents-gateway console --operator olivia",
      description: "With your own PostgreSQL, under this name in the records of actions"
    }
  ])
)
