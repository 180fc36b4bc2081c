/**
 * Which providers cannot carry out a request, by the payloads that they declare.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ProviderName } from "../../domain/Grant.ts"
import { type FinancialRequest, InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import { type DecodePayload, payloadDecoders, type PayloadSchemas } from "../../domain/PayloadSchemas.ts"

const check = (
  decoders: ReadonlyMap<string, DecodePayload>,
  { payload, type }: FinancialRequest
): Effect.Effect<unknown, InvalidFinancialRequest> => {
  const decode = decoders.get(type)
  return decode === undefined
    ? Effect.fail(
      new InvalidFinancialRequest({
        message: `the provider of the grant carries out no operation of the type ${type}`,
        fields: [{ path: [], message: "Expected a type of operation that the provider of the grant carries out" }]
      })
    )
    : Effect.mapError(
      decode(payload),
      (fields) =>
        new InvalidFinancialRequest({ message: "the provider of the grant cannot carry out the payload", fields })
    )
}

/**
 * Finds the providers that refuse a request, with the reason. Only the statement that accepts knows the provider of the
 * grant, so each declared provider is asked. A defect in a schema concerns its own provider alone.
 */
export type FindRefusals = (
  request: FinancialRequest
) => Effect.Effect<ReadonlyMap<ProviderName, Exit.Exit<never, InvalidFinancialRequest>>>

/** Prepares the schemas once for a ledger. */
export const makeFindRefusals = (declared: ReadonlyMap<ProviderName, PayloadSchemas>): FindRefusals => {
  const providers = [...declared].map(([name, schemas]) => [name, payloadDecoders(schemas)] as const)
  return Effect.fnUntraced(function*(request) {
    const refusals = new Map<ProviderName, Exit.Exit<never, InvalidFinancialRequest>>()
    for (const [name, decoders] of providers) {
      const exit = yield* Effect.exit(check(decoders, request))
      if (Exit.isFailure(exit)) refusals.set(name, Exit.failCause(exit.cause))
    }
    return refusals
  })
}
