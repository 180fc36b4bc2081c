/**
 * The standing of a grant in SQL. Reads and acceptances check the same facts.
 */
import type { GrantStanding } from "../../domain/Grant.ts"

/** The facts of the grant `g`, with its client `c` and its provider connection `p`. */
const facts = (isScopeGranted: string): Readonly<Record<keyof GrantStanding, string>> => ({
  revoked: "g.revoked_at IS NOT NULL",
  expired: "g.expires_at <= now()",
  client_active: "c.active",
  scope_granted: isScopeGranted,
  provider_connected: "p.connected"
})

/** The one standing that permits every use. */
const good: GrantStanding = {
  revoked: false,
  expired: false,
  client_active: true,
  scope_granted: true,
  provider_connected: true
}

/** The bit that is set if the fact is not as in `good`. */
const bits = {
  revoked: 1,
  expired: 2,
  client_active: 4,
  scope_granted: 8,
  provider_connected: 16
} as const satisfies Record<keyof GrantStanding, number>

type Fact = keyof typeof bits

/**
 * The standing as one integer. Each row of a list carries it, so that five columns would cost a twentieth of the list. A fact
 * that is neither true nor false sets its bit.
 */
export const standingInteger = (isScopeGranted: string): string => {
  const sql = facts(isScopeGranted)
  const bitOf = (name: Fact) => `CASE WHEN (${sql[name]}) = ${good[name]} THEN 0 ELSE ${bits[name]} END`
  return (Object.keys(bits) as Array<Fact>).map(bitOf).join("\n    + ")
}

/** The integer of the standing that permits every use. */
export const goodStanding = 0

/** Reads the integer of `standingInteger` back. */
export const standingOf = (integer: number): GrantStanding => {
  const fact = (name: Fact) => (integer & bits[name]) === 0 ? good[name] : !good[name]
  return {
    revoked: fact("revoked"),
    expired: fact("expired"),
    client_active: fact("client_active"),
    scope_granted: fact("scope_granted"),
    provider_connected: fact("provider_connected")
  }
}

/** The grant of `$1` id, `$2` client and `$3` subject, as a credential names it. */
export const grantOfCredential = `
    FROM grants g
    JOIN clients c ON c.id = g.client_id
    JOIN provider_connections p ON p.id = g.provider_connection_id`

/** The row `g` is the grant that the credential names: `$1` id, `$2` client, `$3` subject. */
export const isGrantOfCredential = "g.id = $1 AND g.client_id = $2 AND g.subject = $3"
