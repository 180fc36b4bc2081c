/** The standing of a grant in SQL. Reads and acceptances check the same facts. */
import type { GrantStanding } from "../../domain/Grant.ts"

interface Fact {
  /** Null: it depends on the scope that the statement needs. */
  readonly sql: string | null
  /** The value that permits every use. Any other value sets the bit. */
  readonly good: boolean
  readonly bit: number
}

/** The facts of the grant `g`, with its client `c` and its provider connection `p`. */
const facts = {
  revoked: { sql: "g.revoked_at IS NOT NULL", good: false, bit: 1 },
  expired: { sql: "g.expires_at <= now()", good: false, bit: 2 },
  client_active: { sql: "c.active", good: true, bit: 4 },
  scope_granted: { sql: null, good: true, bit: 8 },
  provider_connected: { sql: "p.connected", good: true, bit: 16 }
} as const satisfies Record<keyof GrantStanding, Fact>

/**
 * The standing as one integer. Each row of a list carries it, so that five columns would cost a twentieth of the list. A fact
 * that is neither true nor false sets its bit.
 */
export const standingInteger = (isScopeGranted: string): string =>
  Object.values(facts)
    .map(({ bit, good, sql }) => `CASE WHEN (${sql ?? isScopeGranted}) = ${good} THEN 0 ELSE ${bit} END`)
    .join("\n    + ")

/** The integer of the standing that permits every use. */
export const goodStanding = 0

/** Reads the integer of `standingInteger` back. */
export const standingOf = (integer: number): GrantStanding => {
  const fact = ({ bit, good }: Fact) => (integer & bit) === 0 ? good : !good
  return {
    revoked: fact(facts.revoked),
    expired: fact(facts.expired),
    client_active: fact(facts.client_active),
    scope_granted: fact(facts.scope_granted),
    provider_connected: fact(facts.provider_connected)
  }
}

/** The grant of `$1` id, `$2` client and `$3` subject, as a credential names it. */
export const grantOfCredential = `
    FROM grants g
    JOIN clients c ON c.id = g.client_id
    JOIN provider_connections p ON p.id = g.provider_connection_id`

/** The row `g` is the grant that the credential names: `$1` id, `$2` client, `$3` subject. */
export const isGrantOfCredential = "g.id = $1 AND g.client_id = $2 AND g.subject = $3"
