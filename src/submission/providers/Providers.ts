/** The upstream providers of this process. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { declaredFailure, isGatewayFailureCode } from "../../domain/GatewayFailures.ts"
import { ProviderName } from "../../domain/Grant.ts"
import { permitTerms } from "../../domain/ProviderLimit.ts"
import { ProviderPayloads } from "../../services/ProviderPayloads.ts"
import { ProviderAdapter } from "./ProviderAdapter.ts"
import { checkPromises, reversibleTypes } from "./ProviderPromises.ts"

const isProviderName = Schema.is(ProviderName)

/** The name, if connections can have it. A name is a constant of the program, so the failure may quote it. */
const checkName = (name: string): Effect.Effect<ProviderName> =>
  isProviderName(name) ? Effect.succeed(name) : Effect.die(
    new Error(
      `the provider name ${
        JSON.stringify(name)
      } is invalid: expected 1 to 255 visible ASCII characters, without spaces, `
        + "such as \"first-bank\""
    )
  )

/** Refuses an adapter with unsafe promises, an invalid limit, or a failure that clients cannot read, where it is declared. */
const checkAdapter = (adapter: ProviderAdapter["Service"]): Effect.Effect<ProviderAdapter["Service"]> =>
  Effect.sync(() => {
    if (adapter.limit !== undefined) permitTerms(adapter.limit, 1)
    const { payloads, promises = {} } = adapter
    checkPromises(promises, adapter)
    // A name with a mistake would leave returns unread.
    const unknown = reversibleTypes(promises).find((type) => payloads !== undefined && !Object.hasOwn(payloads, type))
    if (unknown !== undefined) {
      throw new TypeError(`reversibleFor names the type ${JSON.stringify(unknown)}, which payloads does not have`)
    }
    for (const code of Object.keys(adapter.failures ?? {})) {
      if (declaredFailure(adapter.failures, code) === null) {
        throw new TypeError(
          `the failure ${JSON.stringify(code)} ${
            isGatewayFailureCode(code)
              ? "is reserved: only the gateway gives it"
              : "is invalid: expected a code of lower-case letters, digits and _, a letter first, 64 at most, such as "
                + "payment_returned, and a message of 1 to 1024 characters"
          }`
        )
      }
    }
    return adapter
  })

/** Names the provider whose options are invalid: adapters refuse them with a `TypeError`. Other defects stay. */
const namingProvider = (name: ProviderName) => (defect: unknown): Effect.Effect<never> =>
  Effect.die(
    defect instanceof TypeError ? new TypeError(`provider ${name}: ${defect.message}`, { cause: defect }) : defect
  )

/**
 * Adapters by provider, under the name that provider connections use. A worker leaves operations of other providers to
 * the workers that have an adapter for them.
 */
export class Providers extends Context.Service<Providers, ReadonlyMap<ProviderName, ProviderAdapter["Service"]>>()(
  "financial-agents-gateway/submission/providers/Providers"
) {
  /**
   * One adapter for each name: `Providers.layer({ "demo-bank": SandboxProvider.layer(…) })`. A name has 1 to 255 visible
   * ASCII characters; the layer dies at one that has not.
   */
  static readonly layer = <E, R>(
    adapters: Readonly<Record<string, Layer.Layer<ProviderAdapter, E, R>>>
  ): Layer.Layer<Providers, E, R> =>
    Layer.effect(
      Providers,
      Effect.map(
        Effect.forEach(Object.entries(adapters), ([name, adapter]) =>
          Effect.flatMap(checkName(name), (provider) =>
            Layer.build(Layer.fresh(adapter)).pipe(
              Effect.flatMap((context) =>
                checkAdapter(Context.get(context, ProviderAdapter))
              ),
              Effect.catchDefect(namingProvider(provider)),
              Effect.map((made) => [provider, made] as const)
            ))),
        (entries) => new Map(entries)
      )
    )

  /**
   * The payloads that these adapters declare, for the `OperationLedger` of the same process. A process without adapters
   * provides `layerProviderPayloads` instead.
   */
  static readonly payloads: Layer.Layer<never, never, Providers> = Layer.effect(
    ProviderPayloads,
    Effect.map(
      Providers,
      (adapters) =>
        new Map([...adapters].flatMap(([name, { payloads }]) => payloads === undefined ? [] : [[name, payloads]]))
    )
  )
}
