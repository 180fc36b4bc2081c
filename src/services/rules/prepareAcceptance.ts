/** What an acceptance needs of a request before it writes, how much one statement may take, and what it answers. */
import * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Exit from "effect/Exit"
import type { ProviderName } from "../../domain/Grant.ts"
import {
  canonicalPayload,
  type FinancialRequest,
  InvalidFinancialRequest,
  requestDigest,
  validateRequest,
  validateTerms
} from "../../domain/Idempotency.ts"
import type { OperationId, OperationType } from "../../domain/Operation.ts"
import { type DecodePayload, payloadDecoders, type PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import { isTerms, type Terms } from "../../domain/Terms.ts"
import { PayloadCipher, type SealedPayload } from "../PayloadCipher.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"

/**
 * Most requests of one statement. Larger batches cost no less for each request, and grant and keys stay locked while the
 * statement runs: a tenth of a second.
 */
export const maxBatchRequests = 500

/** Most bytes of sealed payloads in one statement: 4 MiB. They pass through the memory of the process and of the database. */
export const maxBatchBytes = 4_194_304

/** The platform services of an acceptance: digests, and random ids. */
export type Platform = Digest.Digest | SecureRandom.SecureRandom

/** A valid request, with the id, the digest and the sealed payload of the operation that it may create. */
export interface PreparedRequest {
  readonly request: FinancialRequest
  readonly id: OperationId
  readonly digest: string
  readonly payload: SealedPayload
  readonly terms: SealedPayload | null
  /** By which operators find the payee of the terms. */
  readonly payeeIndex: Uint8Array | null
  /** SHA-256 of the payee, by which the ledger compares it with the payees of a grant. */
  readonly payeeHash: Uint8Array | null
  /** By which the ledger finds that the exact payee received money under a grant. Null: the end of the operation erases its terms. */
  readonly limitPayee: Uint8Array | null
  /** The providers that refuse the request, each with the effect that fails with the reason. Invalid terms count as `anyProvider`. */
  readonly refusals: ReadonlyMap<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>
}

const encoder = new TextEncoder()

const encodeTerms = ({ amount, currency, payee }: Terms): Uint8Array =>
  encoder.encode(JSON.stringify({ amount, currency, payee }))

const sha256 = (text: string) =>
  Effect.orDie(Digest.Digest.use((digest) => digest.digest(Digest.sha256, encoder.encode(text))))

/** In place of a provider: none takes the request. Names of providers are ASCII. */
export const anyProvider = "·" as ProviderName

/** Why a new operation of this provider is refused. A request that has its operation already is not asked. */
export const refusalOf = ({ refusals }: PreparedRequest, provider: ProviderName) =>
  refusals.get(anyProvider) ?? refusals.get(provider)

/** Makes the function that validates and prepares a request. It reads and writes no store. */
export const makePrepareAcceptance = Effect.gen(function*() {
  const findRefusals = makeFindRefusals(yield* ProviderPayloads)
  return Effect.fnUntraced(function*(request: FinancialRequest) {
    yield* validateRequest(request)
    const random = yield* SecureRandom.SecureRandom
    const cipher = yield* PayloadCipher
    const id = (yield* random.uuidV7()) as OperationId
    const payload = yield* cipher.seal(id, yield* canonicalPayload(request.payload))
    const terms = request.terms === undefined ? null : yield* cipher.seal(id, encodeTerms(request.terms), "terms")
    const payee = isTerms(request.terms) ? request.terms.payee : null
    const [payeeIndex] = payee === null ? [null] : yield* payeeIndexes(payee)
    const payeeHash = payee === null ? null : yield* sha256(payee)
    const isKept = payeeHash !== null && request.terms!.kept !== false
    const limitPayee = isKept ? (yield* cipher.macs(payeeHash))[0] ?? payeeHash : null
    const digest = Hex.encode(yield* requestDigest(request))
    const refusals = yield* findRefusals(request)
    return {
      request,
      id,
      digest,
      payload,
      terms,
      payeeIndex: payeeIndex!,
      payeeHash,
      limitPayee,
      refusals
    } satisfies PreparedRequest
  })
})

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
const makeFindRefusals = (declared: ReadonlyMap<ProviderName, PayloadSchemas>): FindRefusals => {
  const providers = [...declared].map(([name, schemas]) => [name, payloadDecoders(schemas)] as const)
  return Effect.fnUntraced(function*(request) {
    const refusals = new Map<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>()
    const terms = yield* Effect.exit(request.terms === undefined ? Effect.void : validateTerms(request.terms))
    if (Exit.isFailure(terms)) refusals.set(anyProvider, Effect.failCause(terms.cause))
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

/** People write an IBAN with or without spaces, and names in any case. */
const normalized = (payee: string): string => payee.normalize("NFKC").replaceAll(/\s/gu, "").toLowerCase()

/**
 * The values by which operators find the operations of a payee, although the terms are sealed. Without the keys they tell only which
 * operations have the same payee. The first one is stored with a new operation. An operation of an earlier key, or of none, has one of
 * the others.
 */
export const payeeIndexes = Effect.fnUntraced(function*(payee: string) {
  const { macs } = yield* PayloadCipher
  const digests = yield* Digest.Digest
  const text = encoder.encode(normalized(payee))
  return [...yield* macs(text), yield* Effect.orDie(digests.digest(Digest.sha256, text))]
})
