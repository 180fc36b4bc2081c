/**
 * A client program: lists the operations that a grant can read, then follows those that are not settled.
 *
 *     GATEWAY_URL=http://127.0.0.1:3000 ACCESS_TOKEN=fingw_… npm run example:client
 *
 * Copied from the installed package, it runs by `node examples/client.ts`.
 */
import { NodeRuntime } from "@effect/platform-node"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { GatewayClient } from "financial-agents-gateway/api/Client"
import type { Operation } from "financial-agents-gateway/domain/Operation"

const line = ({ id, revision, state, type }: Operation) => `${id}  ${type.padEnd(18)} ${state} (revision ${revision})`

/** Prints all operations, then every change of the unsettled ones, until they are settled. */
export const program = Effect.gen(function*() {
  const gateway = yield* GatewayClient
  const operations = yield* Stream.runCollect(gateway.listAll({ page_size: 50 }))
  yield* Effect.forEach(operations, (operation) => Console.log(line(operation)))
  const open = operations.filter(({ terminal }) => !terminal)
  yield* Console.log(`Following ${open.length} operations that are not settled`)
  yield* Effect.forEach(
    open,
    ({ id }) => Stream.runForEach(Stream.drop(gateway.follow(id), 1), (operation) => Console.log(line(operation))),
    { concurrency: "unbounded", discard: true }
  )
}).pipe(
  // The detail of a problem says what to do. With a revoked grant, for example, repeating the request cannot succeed.
  Effect.catchIf(
    (error) => "code" in error,
    (problem) => Console.error(`${problem.title}: ${problem.detail} (${problem.code}, request ${problem.request_id})`)
  )
)

/** A wrong address ends the program with the name of the setting. */
const Address = Schema.String.check(Schema.makeFilter((url) => /^https?:/i.test(url) && URL.canParse(url), {
  expected: "a URL such as https://gateway.example"
}))

/** The client, with its settings from the environment. */
export const ClientFromEnvironment = Layer.unwrap(Effect.gen(function*() {
  const baseUrl = yield* Config.schema(Address, "GATEWAY_URL").pipe(Config.withDefault("http://127.0.0.1:3000"))
  const accessToken = yield* Config.Redacted("ACCESS_TOKEN")
  return GatewayClient.layer({ baseUrl, accessToken })
})).pipe(Layer.provide(FetchHttpClient.layer))

if (import.meta.main) {
  program.pipe(Effect.provide(ClientFromEnvironment), NodeRuntime.runMain)
}
