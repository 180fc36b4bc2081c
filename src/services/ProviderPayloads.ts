/** The payloads that the providers of a ledger carry out. */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { ProviderName } from "../domain/Grant.ts"
import type { PayloadSchemas } from "../domain/PayloadSchemas.ts"

/**
 * The payloads that each provider can carry out: schemas by the provider of the grant, and by type of operation. A provider without
 * an entry takes any payload. A provider with an entry takes the types and payloads that its schemas declare, and no further members.
 *
 * Default: no entry. Provide it to `OperationLedger`.
 */
export const ProviderPayloads: Context.Reference<ReadonlyMap<ProviderName, PayloadSchemas>> = Context.Reference(
  "financial-agents-gateway/services/ProviderPayloads",
  { defaultValue: (): ReadonlyMap<ProviderName, PayloadSchemas> => new Map() }
)

/**
 * Schemas under the names that provider connections use: `layerProviderPayloads({ "first-bank": FirstBank.payloads })`. For
 * a process without adapters. `Providers.payloads` takes the schemas from the adapters of the process.
 */
export const layerProviderPayloads = (payloads: Readonly<Record<string, PayloadSchemas>>): Layer.Layer<never> =>
  Layer.sync(
    ProviderPayloads,
    () => new Map(Object.entries(payloads).map(([name, schemas]) => [ProviderName.make(name), schemas]))
  )
