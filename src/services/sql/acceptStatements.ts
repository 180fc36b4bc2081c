/**
 * The statements of acceptances: of one request, and of a batch.
 *
 * Parameters 1 to 5 are the same in both: the id, the client and the subject of the grant, the scope that the work needs, and the
 * scopes to which the credential is limited. The last two may be null.
 */
import { grantOfCredential, isGrantOfCredential, standingColumns } from "./grantStanding.ts"
import { publicColumns } from "./OperationRow.ts"

/**
 * Grant, client and provider connection stay locked until the operations are recorded. So a revocation, a deactivation or a
 * disconnection comes either before or after. The statement waits for none of these locks: see `whenUnlocked`.
 */
const standing = `
  standing AS (
    SELECT g.id AS grant_id, g.client_id, g.resource_owner, g.subject, g.provider_connection_id, p.provider,
      ${standingColumns("$4::text IS NULL OR ($4 = ANY (g.scopes) AND ($5::text[] IS NULL OR $4 = ANY ($5)))")}
    ${grantOfCredential}
    WHERE ${isGrantOfCredential}
    FOR SHARE OF g, c, p NOWAIT
  )`

const insertOperations = `
    INSERT INTO operations (client_id, resource_owner, subject, grant_id, provider_connection_id, state, revision, id, type,
      idempotency_key, request_digest)`

const columnsOfGrant = "s.client_id, s.resource_owner, s.subject, s.grant_id, s.provider_connection_id, 'accepted', 1"

const mayAccept = "NOT s.revoked AND NOT s.expired AND s.client_active AND s.scope_granted AND s.provider_connected"

const unlessBound = `
    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING
    RETURNING *`

/** One row for each created operation. If none was created, one row without an operation. No row: the grant is unknown. */
const accepted = `
  SELECT s.provider, s.revoked, s.expired, s.client_active, s.scope_granted, s.provider_connected, ${publicColumns}
  FROM standing s LEFT JOIN o ON true`

/**
 * Accepts a request: `$6` id, `$7` type, `$8` key, `$9` digest, `$10` payload, `$11` id of its key, `$12` the providers that refuse
 * the request.
 */
export const acceptStatement = `
  WITH ${standing}, o AS (${insertOperations}
    SELECT ${columnsOfGrant}, $6, $7, $8, decode($9, 'hex')
    FROM standing s WHERE ${mayAccept} AND s.provider <> ALL ($12::text[])
    ${unlessBound}
  ), payload AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload, key_id)
    SELECT id, client_id, decode($10, 'hex'), $11 FROM o
  )
  ${accepted}`

/**
 * Accepts requests: arrays with `$6` ids, `$7` types, `$8` keys, `$9` digests, `$10` payloads, `$11` ids of their keys (empty: none),
 * `$12` the providers that refuse the request, separated by spaces. Of the requests with one key it takes the first that the provider does
 * not refuse.
 *
 * A key that another transaction has inserted makes the statement wait for the end of that transaction. Every batch inserts its
 * keys in the same order, in the order of their bytes, so that batches never wait for each other in a circle.
 */
export const acceptAllStatement = `
  WITH ${standing}, o AS (${insertOperations}
    SELECT DISTINCT ON (r.key COLLATE "C") ${columnsOfGrant}, r.id, r.type, r.key, decode(r.digest, 'hex')
    FROM standing s
    CROSS JOIN unnest($6::uuid[], $7::text[], $8::text[], $9::text[], $12::text[]) WITH ORDINALITY
      AS r (id, type, key, digest, refused_by, position)
    WHERE ${mayAccept} AND s.provider <> ALL (string_to_array(r.refused_by, ' '))
    ORDER BY r.key COLLATE "C", r.position
    ${unlessBound}
  ), payload AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload, key_id)
    SELECT o.id, o.client_id, r.payload, nullif(r.key_id, '')
    FROM o JOIN unnest($6::uuid[], $10::bytea[], $11::text[]) AS r (id, payload, key_id) ON r.id = o.id
  )
  ${accepted}`

const sameRequest = (digest: string): string =>
  `o.request_digest = decode(${digest}, 'hex') AND o.resource_owner = g.resource_owner AS same_request`

/** The operation of a request binding: `$1` grant, `$2` client, `$3` subject, `$4` key, `$5` digest of the request. */
export const boundStatement = `
  SELECT ${publicColumns}, ${sameRequest("$5")}
  FROM operations o JOIN grants g ON g.id = $1 AND g.client_id = $2
  WHERE o.client_id = $2 AND o.subject = $3 AND o.idempotency_key = $4`

/**
 * The operations of request bindings: `$4` ids of the requests, `$5` keys, `$6` digests, as arrays. OFFSET 0 makes each key a read of
 * the index, so that no plan reads all operations.
 */
export const boundAllStatement = `
  SELECT r.id AS request_id, ${publicColumns}, ${sameRequest("r.digest")}
  FROM grants g CROSS JOIN unnest($4::uuid[], $5::text[], $6::text[]) AS r (id, key, digest)
  CROSS JOIN LATERAL (
    SELECT * FROM operations WHERE client_id = $2 AND subject = $3 AND idempotency_key = r.key OFFSET 0
  ) o
  WHERE g.id = $1 AND g.client_id = $2`
