/** The provider of all contestants: the sandbox with its record in memory, with delays and no other fault. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, References } from "effect"
import { Sandbox } from "../../src/sandbox/Sandbox.ts"
import { configuration, report } from "../shared/processes.ts"
import type { SandboxConfig } from "./config.ts"

const { delay } = configuration<SandboxConfig>()
const faults = delay === 0 ? {} : { slow: { rate: 1, ms: delay, on: "submission" as const } }

const Ready = Layer.effectDiscard(Effect.map(Sandbox, ({ url }) => report({ url })))

Layer.launch(Layer.provide(Ready, Sandbox.layer({ faults }))).pipe(
  Effect.provideService(References.TracerEnabled, false),
  NodeRuntime.runMain
)
