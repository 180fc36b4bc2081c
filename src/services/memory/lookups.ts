/**
 * Look-ups in the ledger in memory.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import {
  type Grant,
  type GrantId,
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  operationsRead,
  refusal,
  type Scope,
  standingAt,
  standingFor
} from "../../domain/Grant.ts"
import type { RequestBinding } from "../../domain/Idempotency.ts"
import { type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import type { Reservation } from "../rules/limits.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"

/** The record of an operation, of any owner. */
export const findRecord = (
  { operations }: MemoryLedger["Service"],
  id: OperationId
): Effect.Effect<MemoryRecord, OperationNotFound> =>
  Effect.suspend(() => {
    const record = operations.get(id)
    return record === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(record)
  })

/** The operation of a request binding. */
export const findBound = (
  { operations }: MemoryLedger["Service"],
  { client_id, key, subject }: RequestBinding
): MemoryRecord | undefined =>
  [...operations.values()].find((record) =>
    record.key === key && record.owner.client_id === client_id && record.owner.subject === subject
  )

/** What the operations of a grant count. `failed` and `cancelled` release their amount. */
export const reservationsOf = ({ operations }: MemoryLedger["Service"], id: GrantId): ReadonlyArray<Reservation> =>
  [...operations.values()].flatMap(({ operation: { state }, owner, reservation }) =>
    owner.grant_id === id && reservation !== null && state !== "failed" && state !== "cancelled" ? [reservation] : []
  )

/** Whether a payee received money under a grant, and did not return it. */
export const hasReceived = ({ operations }: MemoryLedger["Service"], id: GrantId, payee: string): boolean =>
  [...operations.values()].some(({ operation, owner, reservation, reversal }) =>
    owner.grant_id === id && reservation?.payee === payee && operation.state === "succeeded" && reversal === null
  )

/** The grant of this identity, if it is in good standing for the scope. */
export const goodGrant = (
  memory: MemoryLedger["Service"],
  identity: GrantIdentity,
  scope: Scope | null,
  at: DateTime.Utc
): Result.Result<Grant, GrantRefusal> => {
  const grant = memory.grantOf(identity)
  if (grant === undefined) return Result.fail(new GrantUnknown())
  const refused = refusal(standingFor(identity, standingAt(grant, scope, at), scope), scope)
  return refused === null ? Result.succeed(grant) : Result.fail(refused)
}

/** Makes the lookup of a grant that may read. It fails with the refusal of any other. */
export const makeGrantOf = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const clock = yield* Clock.Clock
  return (identity: GrantIdentity) =>
    Effect.suspend(() =>
      Effect.fromResult(
        goodGrant(memory, identity, operationsRead, DateTime.makeUnsafe(clock.currentTimeMillisUnsafe()))
      )
    )
})
