/** Providers are found by name, and each has an adapter of its own. The tests count how often an adapter is built. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Schema } from "effect"
import { FetchHttpClient } from "effect/http"
import type { DeclaredFailures } from "../../../../src/domain/GatewayFailures.ts"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import { failureLine } from "../../../../src/node/process/failureLine.ts"
import { ProviderPayloads } from "../../../../src/services/ProviderPayloads.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import { acknowledged, unclear } from "../../../fixtures/submission/World.ts"

let built = 0

/** An adapter that counts how often it was built. */
const Adapter = Layer.sync(ProviderAdapter, () => {
  built++
  return { submit: () => Effect.succeed(acknowledged), readStatus: () => Effect.succeed(unclear) }
})

describe("The providers of a process", () => {
  it.effect("have one adapter each, even if one layer builds all, so that banks share no state", () =>
    Effect.gen(function*() {
      built = 0
      const both = Providers.layer({ "north-bank": Adapter, "south-bank": Adapter })
      const providers = yield* Effect.provide(Providers.useSync((all) => all), Layer.provideMerge(both, Adapter))
      const [north, south] = [...providers.values()]
      assert.notStrictEqual(north, south)
      assert.strictEqual(built, 3)
    }))

  it.effect("declare the payloads of their adapters to the ledger, and none for an adapter without", () =>
    Effect.gen(function*() {
      const payloads = { payment: Schema.Struct({ amount: Schema.String }) }
      const Declaring = Layer.effect(
        ProviderAdapter,
        Effect.map(ProviderAdapter, (adapter) => ({ ...adapter, payloads }))
      ).pipe(Layer.provide(Adapter))
      const providers = Providers.layer({ "north-bank": Declaring, "south-bank": Adapter })
      const declared = yield* Effect.provide(ProviderPayloads, Layer.provide(Providers.payloads, providers))
      assert.deepStrictEqual([...declared], [[ProviderName.make("north-bank"), payloads]])
    }))

  it.effect("declare failures that clients can read, else they do not start", () =>
    Effect.gen(function*() {
      const startWith = (failures: DeclaredFailures) =>
        Effect.exit(Effect.scoped(Layer.build(Providers.layer({
          "north-bank": Layer.effect(
            ProviderAdapter,
            Effect.map(ProviderAdapter, (adapter) => ({ ...adapter, failures }))
          ).pipe(Layer.provide(Adapter))
        }))))
      assert.isTrue(Exit.isSuccess(yield* startWith({ limit_exceeded: { message: "The amount exceeds the limit." } })))
      const form = "is invalid: expected a code of lower-case letters, digits and _, a letter first"
      const wrong: ReadonlyArray<readonly [code: string, message: string, what: string]> = [
        ["E-51", "No.", form],
        ["Insufficient", "No.", form],
        ["provider_never_received", "No.", "is reserved: only the gateway gives it"],
        ["limit_exceeded", "", form],
        ["limit_exceeded", "x".repeat(1025), form]
      ]
      for (const [code, message, what] of wrong) {
        const exit = yield* startWith({ [code]: { message } })
        const line = failureLine(Exit.isFailure(exit) ? Cause.squash(exit.cause) : null)
        assert.include(line, `provider north-bank: the failure "${code}" ${what}`)
      }
    }))

  it.effect("promise what is safe together, else they do not start", () =>
    Effect.gen(function*() {
      const unsafe = Layer.effect(
        ProviderAdapter,
        Effect.map(
          ProviderAdapter,
          (adapter) => ({ ...adapter, promises: { notFoundIsFinalAfter: "1 hour" } as const })
        )
      ).pipe(Layer.provide(Adapter))
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(Providers.layer({ "north-bank": unsafe }))))
      const line = failureLine(Exit.isFailure(exit) ? Cause.squash(exit.cause) : null)
      assert.include(line, "provider north-bank: notFoundIsFinalAfter requires lateRequests")
    }))

  it.effect("promise reversals of types that they can send, else they do not start", () =>
    Effect.gen(function*() {
      const startWith = (type: string) =>
        Effect.exit(Effect.scoped(Layer.build(Providers.layer({
          "north-bank": Layer.effect(
            ProviderAdapter,
            Effect.map(ProviderAdapter, (adapter) => ({
              ...adapter,
              payloads: { ach_transfer: Schema.Struct({}) },
              promises: { reversibleFor: { byType: { [type]: "60 days" } } } as const
            }))
          ).pipe(Layer.provide(Adapter))
        }))))
      assert.isTrue(Exit.isSuccess(yield* startWith("ach_transfer")))
      const exit = yield* startWith("ach_tranfer")
      const line = failureLine(Exit.isFailure(exit) ? Cause.squash(exit.cause) : null)
      assert.include(line, "provider north-bank: reversibleFor names the type \"ach_tranfer\", which payloads does not")
    }))

  it.effect("have names that are valid for a provider connection; the failure names the rule", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(Providers.layer({ "no name": Adapter }))))
      assert.isTrue(Exit.isFailure(exit))
      assert.match(
        failureLine(Exit.isFailure(exit) ? Cause.squash(exit.cause) : null),
        /^the provider name "no name" is invalid: expected 1 to 255 visible ASCII characters, without spaces/
      )
    }))

  it.effect("are named by the failure of their options, which repeats no URL", () =>
    Effect.gen(function*() {
      const Bank = HttpProvider.layer({
        baseUrl: "https://user:hunter2@bank.test",
        promises: {},
        submit: { request: () => ({ path: "/", body: null }), decode: () => Effect.die("not called") },
        status: { request: () => ({ path: "/" }), decode: () => Effect.die("not called") }
      })
      const exit = yield* Effect.exit(
        Effect.scoped(Layer.build(Layer.provide(Providers.layer({ "north-bank": Bank }), FetchHttpClient.layer)))
      )
      assert.strictEqual(
        failureLine(Exit.isFailure(exit) ? Cause.squash(exit.cause) : null),
        "provider north-bank: the base URL of a provider must be http or https, without user, query and fragment"
      )
    }))
})
