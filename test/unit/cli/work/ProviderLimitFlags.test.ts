/**
 * `--provider-limit` and `PROVIDER_LIMITS` have one form. A wrong one ends `work` with one sentence that names the source, the text
 * and what is wrong. No limit is ignored.
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer } from "effect"
import * as fc from "fast-check"
import { readProviderLimits, withLimits } from "../../../../src/cli/work/WorkCommand.ts"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"

const bank = ProviderName.make("bank")

const read = (flags: ReadonlyArray<string>, variable?: string) =>
  readProviderLimits(flags).pipe(
    Effect.provide(
      ConfigProvider.layer(ConfigProvider.fromUnknown(variable === undefined ? {} : { PROVIDER_LIMITS: variable }))
    )
  )

const refusal = (flags: ReadonlyArray<string>, variable?: string) =>
  Effect.map(Effect.flip(read(flags, variable)), (error) => (error as { readonly message: string }).message)

const form = "must be NAME=REQUESTS/INTERVAL, such as bank=50/1s or bank=300/1m;burst=10;reads=0.3;slack=2s"

const Adapters = Providers.layer({
  bank: Layer.succeed(ProviderAdapter, { submit: () => Effect.never, readStatus: () => Effect.never })
})

describe("The limits of providers on the command line", () => {
  it.effect("have a rate, and perhaps a burst, a share of reads and a slack", () =>
    Effect.gen(function*() {
      const limits = yield* read(["bank=50/1s", "broker=300/m;burst=10;reads=0.3;slack=2s"])
      assert.deepStrictEqual([...limits], [
        [bank, { requests: 50, interval: Duration.seconds(1) }],
        [ProviderName.make("broker"), {
          requests: 300,
          interval: Duration.minutes(1),
          burst: 10,
          reservedForReads: 0.3,
          slack: Duration.seconds(2)
        }]
      ])
    }))

  it.effect("come from the environment only without the flag", () =>
    Effect.gen(function*() {
      const variable = " bank=5/1s , broker=6/1h,"
      assert.deepStrictEqual([...(yield* read([], variable)).keys()], ["bank", "broker"])
      assert.deepStrictEqual([...(yield* read(["other=1/1d"], variable)).keys()], ["other"])
      assert.strictEqual((yield* read([])).size, 0)
    }))

  it.effect("of another form are refused with that form", () =>
    Effect.gen(function*() {
      for (
        const text of [
          "bank",
          "bank=",
          "=50/1s",
          "bank=50",
          "bank=50/",
          "bank=50/1y",
          "bank=-5/1s",
          "bank=5.5/1s",
          "bank=50/1s;bursts=3",
          "bank=50/1s;burst=3;burst=3",
          "bank=50/1s;burst=",
          "bank=50/1s;burst=3=4",
          "bank=50/1s;slack=2",
          "bank=50/1s;constructor=1",
          "bank=50/1s;",
          "a bank=50/1s"
        ]
      ) {
        assert.strictEqual(yield* refusal([text]), `--provider-limit ${text}: ${form}`)
        assert.strictEqual(yield* refusal([], text), `PROVIDER_LIMITS ${text}: ${form}`)
      }
    }))

  it.effect("of values that no limit has are refused with the value that is wrong", () =>
    Effect.gen(function*() {
      assert.match(yield* refusal(["bank=0/1s"]), /^--provider-limit bank=0\/1s: limit\.requests must be /)
      assert.match(yield* refusal(["bank=5/2d"]), /limit\.interval must be /)
      assert.match(yield* refusal(["bank=5/1s;burst=6"]), /limit\.burst must be /)
      assert.match(yield* refusal(["bank=5/1s;reads=1"]), /limit\.reservedForReads must be /)
      assert.match(yield* refusal(["bank=5/1s;slack=9h"]), /limit\.slack must be /)
    }))

  it.effect("of one provider are given once, and of a provider that has an adapter", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* refusal(["bank=5/1s", "bank=6/1s"]), "--provider-limit: bank is given twice")
      const limits = yield* read(["broker=5/1s"])
      const error = yield* Effect.flip(Effect.scoped(Layer.build(withLimits(Adapters, limits))))
      assert.strictEqual(error.message, "--provider-limit (PROVIDER_LIMITS): there is no adapter for broker")
    }))

  it.effect("replace the limits of their adapters, and leave the others as they are", () =>
    Effect.gen(function*() {
      const limited = withLimits(Adapters, yield* read(["bank=5/1s"]))
      const found = yield* Effect.provide(Effect.map(Providers, (providers) => providers.get(bank)!.limit), limited)
      assert.deepStrictEqual(found, { requests: 5, interval: Duration.seconds(1) })
    }))

  it.effect("never end `work` with a defect, for any text", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(fc.string({ unit: "binary" }), async (text) => {
          const exit = await Effect.runPromiseExit(read([`bank=50/1s${text}`]))
          if (exit._tag === "Failure") assert.isTrue(exit.cause.reasons.every((reason) => reason._tag === "Fail"))
        })
      )
    ))
})
