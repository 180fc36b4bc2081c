/** Mistakes in claims and returned claims: at most one process has the right to send, and only with a good grant. */
import { type Plant, postgres } from "../Plant.ts"

const claimsFile = "src/services/sql/queue/SqlClaims.ts"
const fragments = "src/services/sql/queueFragments.ts"

export const claims: ReadonlyArray<Plant> = [
  {
    rule: "an operation is claimed at most once, also by concurrent workers",
    file: claimsFile,
    from: "        FOR UPDATE OF o SKIP LOCKED\n      ) o LIMIT q.share",
    to: "      ) o LIMIT q.share",
    tests: [postgres("services/queue/ConcurrentClaims", "never yield an operation twice")]
  },
  {
    rule: "a claim waits for no row that another transaction has locked",
    file: claimsFile,
    from: "        FOR UPDATE OF o SKIP LOCKED\n      ) o LIMIT q.share",
    to: "        FOR UPDATE OF o\n      ) o LIMIT q.share",
    tests: [postgres("services/queue/ConcurrentClaims", "do not wait for a claim that hangs")]
  },
  {
    rule: "a postponed operation is claimed only once it is due",
    file: claimsFile,
    from: "AND o.due_at <= ${dueBy(\"q.queue\")}${begin}",
    to: "${begin}",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "an operation that was accepted while the clock was ahead is claimed at once",
    file: claimsFile,
    from: "= '' THEN now() ELSE 'infinity' END)`",
    to: "= '' THEN now() ELSE now() END)`",
    tests: [postgres("services/queue/Claims", "accepted while the clock was ahead")]
  },
  {
    rule: "an operation without a good grant is never claimed",
    file: claimsFile,
    from: "provider_account = $11\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready",
    to: "provider_account = $11\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "a returned claim gives no right to send",
    file: claimsFile,
    from: "AND o.send_before = $3 AND o.return_reason IS NULL\n      AND",
    to: "AND o.send_before = $3\n      AND",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "only the holder of the present claim may still send",
    file: claimsFile,
    from: "AND o.send_before = $3 AND o.return_reason IS NULL\n      AND",
    to: "AND o.return_reason IS NULL\n      AND",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "after a revocation no attempt is repeated",
    file: claimsFile,
    from: "AND o.return_reason IS NULL\n      AND ${standing(\"send\")}",
    to: "AND o.return_reason IS NULL",
    tests: [postgres("services/queue/MayStillSend", "may still be sent until")]
  },
  {
    rule: "a claimed operation always has the id of its worker",
    file: claimsFile,
    from: ", claimed_by = $9,\n",
    to: ",\n",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a take-over always sets a later send_before",
    file: claimsFile,
    from: "greatest(now() + ${millis(\"$3\")}, o.send_before + interval '1 millisecond')",
    to: "now() + ${millis(\"$3\")}",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "only the present holder returns a claim",
    file: claimsFile,
    from: "o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL\n  RETURNING",
    to: "o.state = 'submitting' AND o.return_reason IS NULL\n  RETURNING",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a claim of an earlier timeline is never taken over",
    file: claimsFile,
    from: "AND o.timeline = (SELECT timeline FROM here)",
    to: "AND EXISTS (SELECT FROM here)",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a returned claim is taken over at most once",
    file: claimsFile,
    from: "      FOR UPDATE OF o SKIP LOCKED\n    ) o LIMIT $9",
    to: "    ) o LIMIT $9",
    tests: [postgres("services/queue/ConcurrentClaims", "take over each returned claim once")]
  },
  {
    rule: "a returned claim is taken over only once it is due",
    file: claimsFile,
    from: "AND o.provider = $1 AND o.due_at <= now()",
    to: "AND o.provider = $1",
    tests: [postgres("services/queue/ReturnedClaims")]
  },
  {
    rule: "a revoked grant lets nothing be sent",
    file: fragments,
    from: "AND g.revoked_at IS NULL AND g.expires_at > now()",
    to: "AND g.expires_at > now()",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "an expired grant lets nothing be sent",
    file: fragments,
    from: "AND g.revoked_at IS NULL AND g.expires_at > now()",
    to: "AND g.revoked_at IS NULL",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "only a grant with all scopes of the acceptance lets an operation be sent",
    file: fragments,
    from: "g.scopes @> o.scopes",
    to: "g.scopes && o.scopes",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "only a grant of the same subject lets an operation be sent",
    file: fragments,
    from: "AND g.resource_owner = o.resource_owner AND g.subject = o.subject",
    to: "AND g.resource_owner = o.resource_owner",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "nothing is sent for a deactivated client",
    file: fragments,
    from: "c.id = o.client_id AND c.active)",
    to: "c.id = o.client_id)",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "nothing is sent over a disconnected provider connection",
    file: fragments,
    from: "p.id = o.provider_connection_id AND p.connected)",
    to: "p.id = o.provider_connection_id)",
    tests: [postgres("services/queue/Claims")]
  },
  {
    rule: "nothing is claimed on a database that could forget commits",
    file: fragments,
    from: "current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'",
    to: "current_setting('fsync') = 'on'",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres")]
  },
  {
    rule: "nothing is claimed in another cluster before a worker has prepared there",
    file: fragments,
    from: "JOIN pg_control_system() s USING (system_identifier)",
    to: "CROSS JOIN pg_control_system() s",
    tests: [postgres("services/queue/ReturnedClaimsInPostgres"), postgres("services/queue/OperationColumns")]
  }
]
