/**
 * The provider of the demo: a sandbox, and workers in the same process that submit to it.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { QueueServices } from "../node/GatewayServices.ts"
import * as ProviderHttpClient from "../node/http/ProviderHttpClient.ts"
import { Database } from "../node/postgres/Database.ts"
import { layerPayloadKeys } from "../node/process/PayloadKeys.ts"
import { Sandbox } from "../sandbox/Sandbox.ts"
import { Providers } from "../submission/providers/Providers.ts"
import * as SandboxProvider from "../submission/providers/SandboxProvider.ts"
import { defaultPolicy, SubmissionPolicy } from "../submission/SubmissionPolicy.ts"
import * as Submission from "../submission/SubmissionProcesses.ts"
import { demoBank } from "./Demo.ts"

/** Its record is a file beside the database, so that it lives as long as the ledger. The
 * command `sandbox` writes to another file. */
const Bank = Layer.unwrap(Effect.gen(function*() {
  const path = yield* Path.Path
  const { dataDirectory } = yield* Database
  return Sandbox.layer({ record: path.join(dataDirectory ?? ".", "demo-bank.jsonl") })
}))

const BankAdapter = Layer.unwrap(
  Effect.map(Sandbox, ({ url }) => Providers.layer({ [demoBank]: SandboxProvider.layer({ baseUrl: url }) }))
)

/** The default policy, except that the review of an indeterminate operation begins after 15 seconds. */
const DemoPolicy = Layer.succeed(SubmissionPolicy, {
  ...defaultPolicy,
  reviewAfter: { ...defaultPolicy.reviewAfter, indeterminate: Duration.seconds(15) }
})

export const DemoBank = Submission.layer.pipe(
  Layer.provide(BankAdapter),
  Layer.provide([Bank, ProviderHttpClient.layer(), QueueServices]),
  Layer.provide(layerPayloadKeys),
  Layer.provide(DemoPolicy)
)
