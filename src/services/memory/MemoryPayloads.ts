/**
 * The payloads of claims in memory.
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Claim } from "../../domain/Submission.ts"
import { PayloadCipher } from "../PayloadCipher.ts"
import { makeOpenPayload } from "../rules/openPayload.ts"
import type { MemoryRecord } from "./MemoryLedger.ts"
import { toProviderOperation } from "./MemoryQueueTable.ts"

export type MemoryPayloads = Effect.Success<typeof makePayloads>

export const makePayloads = Effect.gen(function*() {
  const cipher = yield* PayloadCipher
  const openPayload = yield* makeOpenPayload

  /** Whether this process has the key, and accepts plain text of this age. A payload that is missing fails later. */
  const isReadable = ({ operation, payload }: MemoryRecord): boolean => {
    if (payload === null) return true
    return payload.key_id === null
      ? operation.created_at.epochMilliseconds < cipher.plaintextBefore
      : cipher.keyIds.includes(payload.key_id)
  }

  const toClaim = (record: MemoryRecord, claimed_at: DateTime.Utc): Claim => ({
    operation: toProviderOperation(record),
    revision: record.operation.revision,
    claimed_at,
    payload: openPayload({ ...record.operation, request_digest: record.digest, sealed: record.payload })
  })

  return { isReadable, toClaim }
})
