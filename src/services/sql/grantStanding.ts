/**
 * The standing of the grant `g`, with its client `c` and its provider connection `p`, as the columns of `GrantStanding`. Reads
 * and acceptances check the same standing.
 */
export const standingColumns = (isScopeGranted: string) => `
    g.revoked_at IS NOT NULL AS revoked,
    g.expires_at <= now() AS expired,
    c.active AS client_active,
    ${isScopeGranted} AS scope_granted,
    p.connected AS provider_connected`

/** The grant of `$1` id, `$2` client and `$3` subject, as a credential names it. */
export const grantOfCredential = `
    FROM grants g
    JOIN clients c ON c.id = g.client_id
    JOIN provider_connections p ON p.id = g.provider_connection_id`

export const isGrantOfCredential = "g.id = $1 AND g.client_id = $2 AND g.subject = $3"
