/**
 * An outbox: posts each change of the ledger to an HTTP endpoint, at least once, signed as the Standard Webhooks specification
 * says. docs/composition.md describes what the receiver gets.
 *
 *     DATABASE_URL=postgres://… WEBHOOK_URL=https://… WEBHOOK_SECRET=whsec_… npm run example:outbox
 *
 * Run as many copies as you like: one publishes, and another one takes over when it ends.
 *
 * - WEBHOOK_URL: the receiver. A redirect is not followed.
 * - WEBHOOK_SECRET: `whsec_` and 24 to 64 bytes in Base64. Several, separated by spaces, give several signatures while the receiver changes
 *   its secret.
 * - OUTBOX_NAME: the name of the position, by default `outbox`. Outboxes with other names post independently.
 * - OUTBOX_LEASE: how long a killed publisher keeps the others waiting, by default `20 seconds`. A request may take a quarter of it.
 *
 * Copied from the installed package, it runs by `node examples/outbox/main.ts`.
 */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { Database, ReaderPool, WriterPool } from "financial-agents-gateway/node/Pools"
import { OperationFeed } from "financial-agents-gateway/services/OperationFeed"
import { Delivery } from "./Delivery.ts"
import { Position } from "./Position.ts"
import { publisher } from "./Publisher.ts"

/** The database of the gateway. */
const LedgerDatabase = Layer.effect(
  Database,
  Effect.map(Config.Redacted("DATABASE_URL"), (url) => ({
    isEmbedded: false,
    dataDirectory: null,
    connection: { url, applicationName: "outbox" }
  }))
)

const Services = Layer.mergeAll(
  OperationFeed.layer.pipe(Layer.provide(ReaderPool)),
  Position.layer.pipe(Layer.provide(WriterPool)),
  Delivery.layer
).pipe(Layer.provide([LedgerDatabase, FetchHttpClient.layer, NodeCrypto.layer]))

if (import.meta.main) {
  publisher.pipe(
    Effect.provide(Services),
    Effect.provide(Logger.layer([Logger.withConsoleError(Logger.formatJson)])),
    // SIGTERM interrupts the publisher, which is a normal end.
    (program) =>
      NodeRuntime.runMain(program, {
        teardown: (exit, onExit) => onExit(Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? 1 : 0)
      })
  )
}
