/**
 * A grant in the database, with the facts on which its use depends.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { ExternalId, Grant, GrantId, Issuer } from "../../../domain/Grant.ts"

interface GrantRow
  extends Omit<Grant, "created_at" | "expires_at" | "revoked_at" | "issuer" | "external_id" | "registered_by_event_at">
{
  readonly created_at: Date
  readonly expires_at: Date
  readonly revoked_at: Date | null
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly registered_by_event_at: Date | null
}

const toGrant = ({ external_id, issuer, registered_by_event_at, ...row }: GrantRow): Grant => ({
  ...row,
  created_at: DateTime.fromDateUnsafe(row.created_at),
  expires_at: DateTime.fromDateUnsafe(row.expires_at),
  revoked_at: row.revoked_at === null ? null : DateTime.fromDateUnsafe(row.revoked_at),
  ...issuer === null || external_id === null ? {} : { issuer, external_id },
  ...registered_by_event_at === null
    ? {}
    : { registered_by_event_at: DateTime.fromDateUnsafe(registered_by_event_at) }
})

const findStatement = `
  SELECT g.id AS grant_id, g.resource_owner, g.subject, g.client_id, c.active AS client_active,
    g.provider_connection_id, p.provider, p.connected AS provider_connected, g.scopes,
    g.created_at, g.expires_at, g.revoked_at, g.issuer, g.external_id, g.registered_by_event_at
  FROM grants g
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id
  WHERE g.id = $1`

/** Finds a grant by its id; undefined if there is none. */
export const findGrant = (sql: SqlClient.SqlClient, id: GrantId) =>
  Effect.map(sql.unsafe<GrantRow>(findStatement, [id]), ([row]) => row && toGrant(row))
