/**
 * Acceptances in PostgreSQL.
 */
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type GrantIdentity,
  type GrantStanding,
  GrantUnknown,
  type ProviderName,
  refusal,
  type Scope
} from "../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest } from "../../domain/Idempotency.ts"
import { AcceptanceSignal } from "../AcceptanceSignal.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"
import { type Platform, prepareAcceptance } from "../rules/ledgerRules.ts"
import { makeFindRefusals } from "../rules/refuseUnsendable.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { acceptStatement, boundStatement } from "./acceptStatements.ts"
import { fromRow, type OperationRow } from "./OperationRow.ts"
import { whenUnlocked } from "./whenUnlocked.ts"

/** A row of a statement that accepts: the standing of the grant, its provider, and a created operation. */
export type AcceptedRow = GrantStanding & { readonly provider: ProviderName } & (OperationRow | { readonly id: null })

/** The operation of a request binding, and whether its request is the same. */
export type BoundRow = OperationRow & { readonly same_request: boolean }

export const makeAccept = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const findRefusals = makeFindRefusals(yield* ProviderPayloads)

  return Effect.fn("OperationLedger.accept")(
    function*(grant: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* prepareAcceptance(request)
      const refusals = yield* findRefusals(request)
      const identity = [grant.grant_id, grant.client_id, grant.subject]
      const statement = sql.unsafe<AcceptedRow>(acceptStatement, [
        ...identity,
        scope,
        grant.limited_to ?? null,
        id,
        request.type,
        request.key,
        digest,
        Hex.encode(payload.payload),
        payload.key_id,
        [...refusals.keys()]
      ])
      const [row] = yield* orUnavailable(whenUnlocked(sql, statement))
      if (row === undefined) return yield* new GrantUnknown()
      const refused = refusal(row, scope)
      if (refused !== null) return yield* refused
      if (row.id !== null) {
        yield* signal.announce(row.provider)
        return { operation: fromRow(row), created: true }
      }
      // The key was bound before, or the provider refuses the payload. The first statement cannot see a row for whose commit
      // it waited, so this is a second one.
      const [bound] = yield* orUnavailable(sql.unsafe<BoundRow>(boundStatement, [...identity, request.key, digest]))
      const unsendable = refusals.get(row.provider)
      if (bound === undefined && unsendable !== undefined) return yield* unsendable
      if (bound === undefined || !bound.same_request) return yield* new BindingConflict({ key: request.key })
      return { operation: fromRow(bound), created: false }
    },
    Effect.provideContext(platform)
  )
})
