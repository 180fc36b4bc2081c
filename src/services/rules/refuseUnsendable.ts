/**
 * Which providers cannot carry out a request, by the payloads that they declare.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ProviderName } from "../../domain/Grant.ts"
import { type FinancialRequest, InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import type { OperationType } from "../../domain/Operation.ts"
import { type DecodePayload, payloadDecoders, type PayloadSchemas } from "../../domain/PayloadSchemas.ts"

const undeclared = (type: OperationType) =>
  new InvalidFinancialRequest({
    message: `the provider of the grant carries out no operation of the type ${type}`,
    fields: [{ path: [], message: "Expected a type of operation that the provider of the grant carries out" }]
  })

/** The client cannot correct the type: the handler chose it. So the log tells the operator. */
const warnOfType = (
  provider: ProviderName,
  type: OperationType,
  declared: ReadonlyArray<string>
): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning(
      "Operation refused: its provider declares no payload of this type. Correct the type in the handler, or declare it "
        + "in the payloads of the adapter"
    ),
    { provider, type, declared_types: declared }
  )

const check = (
  decoders: ReadonlyMap<string, DecodePayload>,
  { payload, type }: FinancialRequest
): Effect.Effect<unknown, InvalidFinancialRequest> => {
  const decode = decoders.get(type)
  return decode === undefined
    ? Effect.fail(undeclared(type))
    : Effect.mapError(
      decode(payload),
      (fields) =>
        new InvalidFinancialRequest({ message: "the provider of the grant cannot carry out the payload", fields })
    )
}

/**
 * Finds the providers that refuse a request, each with the effect that fails with the reason. It also warns of a type that
 * the provider does not declare. Only the statement that accepts knows the provider of the
 * grant, so each declared provider is asked. A defect in a schema concerns its own provider alone.
 */
type FindRefusals = (
  request: FinancialRequest
) => Effect.Effect<ReadonlyMap<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>>

/** Prepares the schemas once for a ledger. */
export const makeFindRefusals = (declared: ReadonlyMap<ProviderName, PayloadSchemas>): FindRefusals => {
  const providers = [...declared].map(([name, schemas]) => [name, payloadDecoders(schemas)] as const)
  return Effect.fnUntraced(function*(request) {
    const refusals = new Map<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>()
    for (const [name, decoders] of providers) {
      const exit = yield* Effect.exit(check(decoders, request))
      if (Exit.isSuccess(exit)) continue
      const refusal = Effect.failCause(exit.cause)
      const isDeclared = decoders.has(request.type)
      refusals.set(
        name,
        isDeclared ? refusal : Effect.andThen(warnOfType(name, request.type, [...decoders.keys()]), refusal)
      )
    }
    return refusals
  })
}
