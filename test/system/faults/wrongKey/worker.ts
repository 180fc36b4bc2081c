/** A worker in a process of its own. Its adapter reads the key of the bank from a file for each request. */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { Cause, Effect, Exit, Layer, Logger, Redacted, Schema } from "effect"
import { readFileSync } from "node:fs"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { Database } from "../../../../src/node/postgres/Database.ts"
import * as PgAcceptanceSignal from "../../../../src/node/postgres/PgAcceptanceSignal.ts"
import { WorkerPool } from "../../../../src/node/postgres/Pools.ts"
import { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import { byStatus, evidenceOf, onBody } from "../../../../src/submission/http/HttpProvider.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import {
  NotSent,
  ProviderReference,
  StatusAnswer,
  SubmissionAnswer
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import * as Submission from "../../../../src/submission/SubmissionProcesses.ts"
import { type WorkerConfig, workerVariable } from "./WrongKey.ts"

const { bankUrl, connection, keyFile } = JSON.parse(process.env[workerVariable] ?? "") as WorkerConfig

const Payment = Schema.Struct({ id: Schema.String, reference: ProviderReference })

const namesOf = ({ id, reference }: typeof Payment.Type) => ({ operation_id: id, reference })

const Adapter = HttpProvider.layer({
  baseUrl: bankUrl,
  credentials: () =>
    Effect.sync(() => ({ authorization: Redacted.make(`Bearer ${readFileSync(keyFile, "utf8").trim()}`) })),
  submit: {
    request: (_, payload) => ({ path: "/payments", body: payload }),
    decode: byStatus({
      200: onBody(
        Payment,
        (body, answer) => SubmissionAnswer.Succeeded({ names: namesOf(body), evidence: evidenceOf(answer) })
      ),
      401: () => Effect.fail(new NotSent({ reason: "the bank does not know the key", isLocal: true, isRefused: true }))
    })
  },
  status: {
    request: ({ id }) => ({ path: `/payments/${id}` }),
    decode: byStatus({
      200: onBody(
        Payment,
        (body, answer) =>
          StatusAnswer.Proven({ state: "succeeded", names: namesOf(body), evidence: evidenceOf(answer) })
      )
    })
  }
})

const Work = Layer.effectDiscard(Effect.sync(() => process.stdout.write("ready\n"))).pipe(
  Layer.provide(Submission.layer),
  Layer.provide(Providers.layer({ bank: Adapter })),
  Layer.provide(ProviderHttpClient.layer()),
  Layer.provide(SubmissionQueue.layer),
  Layer.provide(PgAcceptanceSignal.layer),
  Layer.provide(WorkerPool),
  Layer.provide([
    Layer.succeed(Database, { isEmbedded: false, dataDirectory: null, connection }),
    NodeCrypto.layerDigest
  ])
)

Layer.launch(Work).pipe(
  Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("Could not work", cause)),
  Effect.provide(Logger.layer([Logger.withConsoleError(Logger.formatJson)])),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    })
)
