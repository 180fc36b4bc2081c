/**
 * The parts of `GatewayApp` that make the demo: a sandbox as provider, workers that submit to it, and the texts for the terminal. They
 * are for an embedded database alone: a database that DATABASE_URL names may hold real operations.
 */
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { WriteServices } from "../../node/GatewayServices.ts"
import { Database } from "../../node/postgres/Database.ts"
import { Sandbox } from "../../sandbox/Sandbox.ts"
import { Providers } from "../../submission/providers/Providers.ts"
import * as SandboxProvider from "../../submission/providers/SandboxProvider.ts"
import { defaultPolicy, SubmissionPolicy } from "../../submission/SubmissionPolicy.ts"
import { demoBank, fillWithDemo, instructions, invitation, narrate, reopenDemo } from "./Demo.ts"

/** Its record is a file beside the database, so that it lives as long as the ledger. The command `sandbox` writes to another file. */
const Bank = Layer.unwrap(Effect.gen(function*() {
  const path = yield* Path.Path
  const { dataDirectory } = yield* Database
  return Sandbox.layer({ record: path.join(dataDirectory ?? ".", "demo-bank.jsonl") })
}))

const Adapters = Layer.unwrap(
  Effect.map(Sandbox, ({ url }) => Providers.layer({ [demoBank]: SandboxProvider.layer({ baseUrl: url }) }))
).pipe(Layer.provide(Bank))

/** The default policy, except that the review of an indeterminate operation begins after 15 seconds. */
const policy = { ...defaultPolicy, reviewAfter: { ...defaultPolicy.reviewAfter, indeterminate: Duration.seconds(15) } }

/**
 * Fills an empty database, or issues another grant for the demo of an earlier start. Prints how to read it, and the changes of a new
 * one.
 */
const showDemo = Effect.fn(function*(address: string) {
  const filled = yield* fillWithDemo
  const demo = filled ?? (yield* reopenDemo)
  yield* Console.log(demo === null ? instructions(address) : invitation(address, demo))
  if (filled !== null) yield* Effect.forkScoped(narrate(filled))
})

/** The demo of a gateway at this address. Its operations are accepted before the workers start, because one of them is cancelled. */
export const demoParts = (address: string) => ({
  providers: Layer.provide(
    Adapters,
    // Fresh: services of the process may be on other connections.
    Layer.provide(Layer.effectDiscard(showDemo(address)), Layer.fresh(WriteServices))
  ),
  references: Layer.succeed(SubmissionPolicy, policy)
})
