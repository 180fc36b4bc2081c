/**
 * What moves the operations of the demo: the sandbox provider, and workers in the same process.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { Database } from "../node/Database.ts"
import * as ProviderHttpClient from "../node/ProviderHttpClient.ts"
import { Sandbox } from "../sandbox/Sandbox.ts"
import { Providers } from "../submission/Providers.ts"
import * as SandboxProvider from "../submission/SandboxProvider.ts"
import { defaultPolicy, SubmissionPolicy } from "../submission/SubmissionPolicy.ts"
import * as Submission from "../submission/SubmissionProcesses.ts"
import { demoBank } from "./Demo.ts"
import { Queue } from "./WorkCommand.ts"

/** Its record lies beside the database, so that it remembers for as long as the ledger does. */
const Bank = Layer.unwrap(Effect.gen(function*() {
  const path = yield* Path.Path
  const { dataDirectory } = yield* Database
  return Sandbox.layer({ record: path.join(dataDirectory ?? ".", "sandbox.jsonl") })
}))

const BankAdapter = Layer.unwrap(
  Effect.map(Sandbox, ({ url }) => Providers.layer({ [demoBank]: SandboxProvider.layer({ baseUrl: url }) }))
)

/** Nobody waits a quarter of an hour to see a review begin. */
const Impatient = Layer.succeed(SubmissionPolicy, {
  ...defaultPolicy,
  reviewAfter: { ...defaultPolicy.reviewAfter, indeterminate: Duration.seconds(15) }
})

export const DemoBank = Submission.layer.pipe(
  Layer.provide(BankAdapter),
  Layer.provide([Bank, ProviderHttpClient.layer(), Queue]),
  Layer.provide(Impatient)
)
