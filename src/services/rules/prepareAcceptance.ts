/**
 * What an acceptance needs of a request before it writes, how much one statement may take, and what it answers.
 */
import type * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type * as Exit from "effect/Exit"
import type { ProviderName } from "../../domain/Grant.ts"
import {
  type BindingConflict,
  canonicalPayload,
  type FinancialRequest,
  type InvalidFinancialRequest,
  requestDigest,
  validateRequest
} from "../../domain/Idempotency.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { PayloadCipher, type SealedPayload } from "../PayloadCipher.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"
import { makeFindRefusals } from "./refuseUnsendable.ts"

/**
 * Most requests of one statement. Larger batches cost no less for each request, and grant and keys stay locked while the
 * statement runs: a tenth of a second.
 */
export const maxBatchRequests = 500

/** Most bytes of sealed payloads in one statement: 4 MiB. They pass through the memory of the process and of the database. */
export const maxBatchBytes = 4_194_304

/** The platform services of an acceptance: digests, and random ids. */
export type Platform = Digest.Digest | SecureRandom.SecureRandom

/** The result of an acceptance: the operation, and whether this call created it. */
export interface Accepted {
  readonly operation: Operation
  readonly created: boolean
}

/**
 * The result of one request of a batch: what `accept` answers to it. It is an `Exit`, because a defect may concern one request
 * alone, such as a schema of its payload that dies.
 */
export type Acceptance = Exit.Exit<Accepted, BindingConflict | InvalidFinancialRequest>

/** A valid request, with the id, the digest and the sealed payload of the operation that it may create. */
export interface PreparedRequest {
  readonly request: FinancialRequest
  readonly id: OperationId
  readonly digest: string
  readonly payload: SealedPayload
  /** The providers that refuse the request, each with the effect that fails with the reason. */
  readonly refusals: ReadonlyMap<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>
}

/** Makes the function that validates and prepares a request. It reads and writes no store. */
export const makePrepareAcceptance = Effect.gen(function*() {
  const findRefusals = makeFindRefusals(yield* ProviderPayloads)
  return Effect.fnUntraced(function*(request: FinancialRequest) {
    yield* validateRequest(request)
    const random = yield* SecureRandom.SecureRandom
    const cipher = yield* PayloadCipher
    const id = (yield* random.uuidV7()) as OperationId
    const payload = yield* cipher.seal(id, yield* canonicalPayload(request.payload))
    const digest = Hex.encode(yield* requestDigest(request))
    return { request, id, digest, payload, refusals: yield* findRefusals(request) } satisfies PreparedRequest
  })
})
