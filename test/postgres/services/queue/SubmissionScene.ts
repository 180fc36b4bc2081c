/**
 * The scene of submission tests: the real worker, reconciler and adapter on the ledger of the test, and a sandbox on
 * its own socket.
 */
import { Context, Effect, Layer, Logger } from "effect"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { Sandbox } from "../../../../src/sandbox/Sandbox.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import * as SandboxProvider from "../../../../src/submission/http/SandboxProvider.ts"
import { layerCircuitBreaker } from "../../../../src/submission/providers/Circuit.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { issueAtNewProvider } from "../../../fixtures/ledger/Queue.ts"

/** A grant at a sandbox of its own, with a worker and a reconciler that run when the test starts them. */
export const submissionScene = Effect.gen(function*() {
  const { grant, identity } = yield* issueAtNewProvider()
  const sandbox = Context.get(yield* Layer.build(Layer.fresh(Sandbox.layer())), Sandbox)
  return { grant, identity, sandbox, ...yield* engineAt(grant.provider, sandbox.url) }
})

/** Worker and reconciler in the current context: with its queue, and therefore with its payload keys. */
export const engineAt = Effect.fnUntraced(function*(provider: ProviderName, sandboxUrl: string) {
  const logs: Array<string> = []
  const logger = Logger.make((options) => void logs.push(Logger.formatJson.log(options)))
  const engine = yield* Layer.build(
    Layer.fresh(Layer.merge(SubmissionWorker.layerManual, Reconciler.layerManual)).pipe(
      Layer.provide([
        Providers.layer({ [provider]: SandboxProvider.layer({ baseUrl: sandboxUrl }) }),
        layerCircuitBreaker
      ]),
      Layer.provide(ProviderHttpClient.layer())
    )
  )
  const logged = Effect.provide(Logger.layer([logger]))
  return {
    /** Lines of JSON. */
    logs,
    work: logged(Context.get(engine, SubmissionWorker).runOnce(provider, 100)),
    reconcile: logged(Context.get(engine, Reconciler).runOnce(provider, 100))
  }
})
