/** `sandbox`: the sandbox provider as a process. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { bankDialects } from "../sandbox/banks/bankDialects.ts"
import { faultNames, FaultSettings } from "../sandbox/Faults.ts"
import { Sandbox } from "../sandbox/Sandbox.ts"
import { MutualTls } from "../sandbox/SandboxServer.ts"
import { WebhookSettings } from "../sandbox/Webhooks.ts"
import { describeIssues } from "../sandbox/Wire.ts"
import { optionalText, Port, textOr } from "./Flags.ts"
import { CommandFailed } from "./Output.ts"

const faultPattern = /^(?<name>[a-z_]+)=(?<rate>[0-9]+(?:\.[0-9]+)?)(?::(?<ms>[0-9]{1,10}))?$/u

const Faults = Schema.Array(
  Schema.String.check(Schema.isPattern(faultPattern, { expected: "NAME=RATE or NAME=RATE:MS, such as slow=0.1:500" }))
)

const flags = {
  host: textOr("host", "Address to listen on", "127.0.0.1", Schema.String),
  port: textOr("port", "Port to listen on; 0 chooses a free port, which the log shows", "4010", Port({ from: 0 })),
  controlPort: optionalText(
    "control-port",
    "Port of the control plane on 127.0.0.1: PUT /faults replaces all faults, GET /record, /arrivals and /truth tell what the provider did. It never refuses connections (default: the one after --port, or a free one if that is 0)",
    Port({ from: 0 })
  ),
  record: textOr(
    "record",
    "File that records every received submission, one JSON document a line",
    ".data/sandbox.jsonl",
    Schema.String
  ),
  seed: textOr(
    "seed",
    "Seed of the choice of outcomes and of the requests that faults strike",
    "sandbox",
    Schema.String
  ),
  bank: optionalText(
    "bank",
    `Bank whose paths, states and errors it has: ${
      Object.keys(bankDialects).join(", ")
    }. Default: a protocol of its own`,
    Schema.Literals(Object.keys(bankDialects))
  ),
  fault: Flag.String("fault").pipe(
    Flag.withDescription(`Fault to inject, as NAME=RATE[:MS]; repeat for several. Names: ${faultNames.join(", ")}`),
    Flag.atLeast(0),
    Flag.withSchema(Faults)
  ),
  mutualTls: optionalText(
    "mutual-tls",
    "Directory with cert.pem, key.pem and client-ca.pem. The service then has TLS with that certificate, and asks its clients for one of client-ca.pem",
    Schema.String
  ),
  webhookUrl: optionalText(
    "webhook-url",
    "URL that receives a signed webhook for each accepted submission and each outcome. SANDBOX_WEBHOOK_SECRET has the secret",
    Schema.String
  )
}

/** The port of the control plane. Fails if both ports are to be the same. */
export const controlPortOf = (port: number, given: Option.Option<number>): Effect.Effect<number, CommandFailed> => {
  const chosen = Option.getOrElse(given, () => port === 0 ? 0 : port === 65_535 ? port - 1 : port + 1)
  return chosen === port && port !== 0
    ? Effect.fail(
      new CommandFailed({ message: `--control-port: ${port} is the port of the provider; specify another one` })
    )
    : Effect.succeed(chosen)
}

const decodeWebhooks = Schema.decodeUnknownEffect(WebhookSettings)

/** The secret comes from the environment, because every user of the machine can read arguments. */
const webhooksTo = (url: Option.Option<string>) =>
  Option.match(url, {
    onNone: () => Effect.succeed({}),
    onSome: Effect.fnUntraced(function*(url) {
      const secret = yield* Config.option(Config.Redacted("SANDBOX_WEBHOOK_SECRET"))
      if (Option.isNone(secret)) {
        return yield* new CommandFailed({ message: "--webhook-url: set the secret in SANDBOX_WEBHOOK_SECRET" })
      }
      const webhooks = yield* decodeWebhooks({ url, secret: secret.value }).pipe(
        Effect.mapError((error) => new CommandFailed({ message: `--webhook-url: ${describeIssues(error)}` }))
      )
      return { webhooks }
    })
  })

const decodeTls = Schema.decodeUnknownEffect(MutualTls)

const tlsIn = (directory: Option.Option<string>) =>
  Option.match(directory, {
    onNone: () => Effect.succeed({}),
    onSome: Effect.fnUntraced(
      function*(directory) {
        const files = yield* FileSystem.FileSystem
        const path = yield* Path.Path
        const [cert, key, clientCa] = yield* Effect.forEach(
          ["cert.pem", "key.pem", "client-ca.pem"],
          (name) => files.readFileString(path.join(directory, name))
        )
        return { tls: yield* decodeTls({ cert, key, clientCa }) }
      },
      Effect.mapError((error) =>
        new CommandFailed({
          message: `--mutual-tls: ${error instanceof Schema.SchemaError ? describeIssues(error) : error.message}`
        })
      )
    )
  })

const decodeSettings = Schema.decodeUnknownEffect(FaultSettings, { onExcessProperty: "error", errors: "all" })

const isFault = Schema.is(Schema.Literals(faultNames))

const toSettings = (faults: typeof Faults.Type): Effect.Effect<FaultSettings, CommandFailed> => {
  const unknown = faults.map((fault) => fault.split("=", 1)[0]!).find((name) => !isFault(name))
  if (unknown !== undefined) {
    return Effect.fail(
      new CommandFailed({ message: `--fault: ${unknown} is no fault; the faults are ${faultNames.join(", ")}` })
    )
  }
  return decodeSettings(Object.fromEntries(faults.map((fault) => {
    const { ms, name, rate } = faultPattern.exec(fault)!.groups!
    return [name, { rate: Number(rate), ...ms !== undefined && { ms: Number(ms) } }]
  }))).pipe(Effect.mapError((error) => new CommandFailed({ message: `--fault: ${describeIssues(error)}` })))
}

export const sandbox = Command.make(
  "sandbox",
  flags,
  Effect.fn(function*({ bank, controlPort: given, fault, mutualTls, webhookUrl, ...options }) {
    const controlPort = yield* controlPortOf(options.port, given)
    const faults = yield* toSettings(fault)
    const webhooks = yield* webhooksTo(webhookUrl)
    const tls = yield* tlsIn(mutualTls)
    const announced = Layer.effectDiscard(Effect.gen(function*() {
      const { controlUrl, url } = yield* Sandbox
      yield* Effect.annotateLogs(Effect.logInfo("Listening"), { url, control_url: controlUrl, record: options.record })
    }))
    yield* Layer.launch(
      Layer.provide(
        announced,
        Sandbox.layer({
          ...options,
          controlPort,
          ...webhooks,
          ...tls,
          faults,
          ...Option.isSome(bank) && { bank: bank.value }
        })
      )
    )
  })
).pipe(
  Command.withDescription(
    "Run a sandbox provider for development. It records what it receives and injects faults on demand"
  ),
  Command.withExamples([
    { command: "financial-agents-gateway sandbox", description: "On port 4010, without faults" },
    {
      command: "financial-agents-gateway sandbox --fault drop_response=0.1 --fault slow=0.2:1500",
      description: "Drops every tenth response, and delays every fifth request by 1.5 s"
    },
    {
      command: "curl -X PUT http://127.0.0.1:4011/faults -d '{\"drop_response\":{\"rate\":0.1}}'",
      description: "Drops every tenth response from now on, and ends all other faults"
    },
    {
      command: "financial-agents-gateway sandbox --bank increase",
      description: "With the paths, states and errors of Increase"
    }
  ])
)
