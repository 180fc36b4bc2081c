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
import { type Platform, prepareAcceptance } from "../internal/ledgerRules.ts"
import { makeFindRefusals } from "../internal/refuseUnsendable.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { grantOfCredential, isGrantOfCredential, standingColumns } from "./grantStanding.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { whenUnlocked } from "./whenUnlocked.ts"

type AcceptedRow = GrantStanding & { readonly provider: ProviderName } & (OperationRow | { readonly id: null })

type BoundRow = OperationRow & { readonly same_request: boolean }

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
        id,
        request.type,
        request.key,
        digest,
        Hex.encode(payload.payload),
        payload.key_id,
        scope,
        grant.limited_to ?? null,
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

/**
 * Grant, client and provider connection stay locked until the operation is recorded. So a revocation, a deactivation or a
 * disconnection comes either before or after. The statement waits for no lock: see `whenUnlocked`.
 */
const acceptStatement = `
  WITH standing AS (
    SELECT g.id AS grant_id, g.client_id, g.resource_owner, g.subject, g.provider_connection_id, p.provider,
      ${standingColumns("$10::text IS NULL OR ($10 = ANY (g.scopes) AND ($11::text[] IS NULL OR $10 = ANY ($11)))")}
    ${grantOfCredential}
    WHERE ${isGrantOfCredential}
    FOR SHARE OF g, c, p NOWAIT
  ), o AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
      idempotency_key, request_digest, state, revision)
    SELECT $4, client_id, resource_owner, subject, grant_id, provider_connection_id, $5, $6, decode($7, 'hex'),
      'accepted', 1
    FROM standing
    WHERE NOT revoked AND NOT expired AND client_active AND scope_granted AND provider_connected
      AND provider <> ALL ($12::text[])
    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING
    RETURNING *
  ), payload AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload, key_id)
    SELECT id, client_id, decode($8, 'hex'), $9 FROM o
  )
  SELECT s.provider, s.revoked, s.expired, s.client_active, s.scope_granted, s.provider_connected, ${publicColumns}
  FROM standing s LEFT JOIN o ON true`

const boundStatement = `
  SELECT ${publicColumns},
    o.request_digest = decode($5, 'hex') AND o.resource_owner = g.resource_owner AS same_request
  FROM operations o JOIN grants g ON g.id = $1 AND g.client_id = $2
  WHERE o.client_id = $2 AND o.subject = $3 AND o.idempotency_key = $4`
