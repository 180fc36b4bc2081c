/**
 * What the Fastify peers ask of their database: the statements, the rows, and what the standing of a grant means. Each
 * peer brings its driver.
 */
import type { DatabaseAddress } from "../shared/processes.ts"

export interface PeerConfig extends DatabaseAddress {
  /** Whether `pg` names its statements, so that PostgreSQL plans each once a connection. */
  readonly named: boolean
}

/** A refusal of the request. */
interface Refusal {
  readonly status: 401 | 403
  readonly code: string
}

/** The columns that decide whether a grant may read. */
export interface Standing {
  readonly revoked: boolean
  readonly expired: boolean
  readonly active: boolean
  readonly scoped: boolean
  readonly connected: boolean
}

export interface OperationRow {
  readonly id: string
  readonly type: string
  readonly state: string
  readonly revision: number
  readonly under_review: boolean
  readonly created_at: Date
  readonly updated_at: Date
  readonly completed_at: Date | null
  readonly failure_code: string | null
  readonly failure_message: string | null
}

interface Page {
  /** One row more than the page shows, so that the next page is known. */
  readonly limit: number
  readonly after: readonly [createdAt: string, id: string] | null
}

/** Either the grant refuses, or these are the rows. */
export type Found = { readonly refusal: Refusal } | { readonly rows: ReadonlyArray<OperationRow> }

/** A driver. Tokens are given by their SHA-256. */
export interface Store {
  readonly find: (digest: Buffer, id: string) => Promise<Found>
  readonly list: (digest: Buffer, page: Page) => Promise<Found>
}

/** Why a grant with this standing may not read; null if it may. */
export const refusalOf = (standing: Standing | undefined): Refusal | null => {
  if (standing === undefined) return { status: 401, code: "invalid_token" }
  if (standing.revoked || standing.expired) return { status: 401, code: "grant_revoked" }
  if (!standing.active) return { status: 401, code: "client_inactive" }
  if (!standing.scoped) return { status: 403, code: "insufficient_scope" }
  if (!standing.connected) return { status: 403, code: "provider_disconnected" }
  return null
}

const standing = `g.revoked_at IS NOT NULL AS revoked, g.expires_at <= now() AS expired, c.active,
  'operations:read' = ANY (g.scopes) AS scoped, p.connected`

const grants = `access_tokens t
  JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id`

const columns = `o.id, o.type, o.state, o.revision, o.under_review, o.created_at, o.updated_at, o.completed_at,
  o.failure_code, o.failure_message`

const newestFirst = "ORDER BY o.created_at DESC, o.id DESC"

const owner = "o.client_id = $1 AND o.resource_owner = $2 AND o.subject = $3"

/** Two statements for a request: one that authorizes, and one that reads. */
export const separate = {
  grant: `SELECT g.client_id, g.resource_owner, g.subject, ${standing} FROM ${grants} WHERE t.digest = $1`,
  find: `SELECT ${columns} FROM operations o WHERE ${owner} AND o.id = $4`,
  /** The limit is part of the text: with a parameter in its place, PostgreSQL would plan named statements each time. */
  first: (limit: number) => `SELECT ${columns} FROM operations o WHERE ${owner} ${newestFirst} LIMIT ${limit}`,
  after: (limit: number) =>
    `SELECT ${columns} FROM operations o WHERE ${owner} AND (o.created_at, o.id) < ($4, $5) ${newestFirst} LIMIT ${limit}`
}

const owned = "o.client_id = g.client_id AND o.resource_owner = g.resource_owner AND o.subject = g.subject"

const joinedPage = (condition: string, limit: number) =>
  `SELECT ${standing}, ${columns} FROM ${grants}
    LEFT JOIN LATERAL (SELECT * FROM operations o WHERE ${owned} ${condition} ${newestFirst} LIMIT ${limit}) o ON true
    WHERE t.digest = $1 ${newestFirst}`

/** One statement for a request, as in the gateway. Without an operation, the row has a null id. */
export const joined = {
  find: `SELECT ${standing}, ${columns} FROM ${grants}
    LEFT JOIN operations o ON o.id = $2 AND ${owned} WHERE t.digest = $1`,
  first: (limit: number) => joinedPage("", limit),
  after: (limit: number) => joinedPage("AND (o.created_at, o.id) < ($2, $3)", limit)
}
