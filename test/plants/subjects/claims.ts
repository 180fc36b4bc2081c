/** Mistakes in claims and returned claims: at most one process has the right to send, and only with a good grant. */
import { type Plant, plant, postgres, unit } from "../Plant.ts"

const claimsFile = "src/services/sql/queue/SqlClaims.ts"
const fragments = "src/services/sql/queueFragments.ts"

export const claims: ReadonlyArray<Plant> = [
  plant("an operation is claimed at most once, also by concurrent workers", claimsFile)
    .edit("        FOR UPDATE OF o SKIP LOCKED\n      ) o LIMIT q.share", "      ) o LIMIT q.share")
    .foundBy(postgres("services/queue/ConcurrentClaims", "never yield an operation twice")),
  plant("a claim waits for no row that another transaction has locked", claimsFile)
    .edit(
      "        FOR UPDATE OF o SKIP LOCKED\n      ) o LIMIT q.share",
      "        FOR UPDATE OF o\n      ) o LIMIT q.share"
    )
    .foundBy(postgres("services/queue/ConcurrentClaims", "do not wait for a claim that hangs")),
  plant("claims are served also if a later statement fails", "src/services/rules/claimRounds.ts")
    .edit("served.length > 0 ? Effect.succeed(nothing) : Effect.fail(error)", "Effect.fail(error)")
    .foundBy(unit("services/claimRounds")),
  plant("a postponed operation is claimed only once it is due", claimsFile)
    .edit("AND o.due_at <= ${dueBy(\"q.queue\")}${begin}", "${begin}")
    .foundBy(postgres("services/queue/Claims")),
  plant("an operation that was accepted while the clock was ahead is claimed at once", claimsFile)
    .edit("= '' THEN now() ELSE 'infinity' END)`", "= '' THEN now() ELSE now() END)`")
    .foundBy(postgres("services/queue/Claims", "accepted while the clock was ahead")),
  plant("an operation without a good grant is never claimed", claimsFile)
    .edit(
      "provider_account = $11\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready",
      "provider_account = $11\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id"
    )
    .foundBy(postgres("services/queue/Claims")),
  plant("a returned claim gives no right to send", claimsFile)
    .edit("AND o.send_before = $3 AND o.return_reason IS NULL\n      AND", "AND o.send_before = $3\n      AND")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("only the holder of the present claim may still send", claimsFile)
    .edit("AND o.send_before = $3 AND o.return_reason IS NULL\n      AND", "AND o.return_reason IS NULL\n      AND")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("after a revocation no attempt is repeated", claimsFile)
    .edit("AND o.return_reason IS NULL\n      AND ${standing(\"send\")}", "AND o.return_reason IS NULL")
    .foundBy(postgres("services/queue/MayStillSend", "may still be sent until")),
  plant("a claimed operation always has the id of its worker", claimsFile)
    .edit(", claimed_by = $9,\n", ",\n")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a take-over always sets a later send_before", claimsFile)
    .edit("greatest(now() + ${millis(\"$3\")}, o.send_before + interval '1 millisecond')", "now() + ${millis(\"$3\")}")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("only the present holder returns a claim", claimsFile)
    .edit(
      "o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL\n  RETURNING",
      "o.state = 'submitting' AND o.return_reason IS NULL\n  RETURNING"
    )
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a claim of an earlier timeline is never taken over", claimsFile)
    .edit("AND o.timeline = (SELECT timeline FROM here)", "AND EXISTS (SELECT FROM here)")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a returned claim is taken over at most once", claimsFile)
    .edit("      FOR UPDATE OF o SKIP LOCKED\n    ) o LIMIT $9", "    ) o LIMIT $9")
    .foundBy(postgres("services/queue/ConcurrentClaims", "take over each returned claim once")),
  plant("returned claims are taken over without an end", "src/submission/attempts/claimOperations.ts")
    .edit("if (found.length > 0) emptySince.delete(provider)", "if (found.length > 0) return []")
    .foundBy(unit("submission/attempts/LocalFailures", "ends none of 200 operations")),
  plant("an operation that no process announced is claimed within the poll interval", "src/submission/Poller.ts")
    .edit("      Effect.sleep(pause),\n", "")
    .foundBy(unit("submission/attempts/Wakeup", "that is not announced"), unit("submission/Poller", "at intervals")),
  plant("a returned claim is taken over only once it is due", claimsFile)
    .edit("AND o.provider = $1 AND o.due_at <= now()", "AND o.provider = $1")
    .foundBy(postgres("services/queue/ReturnedClaims")),
  plant("a revoked grant lets nothing be sent", fragments)
    .edit("AND g.revoked_at IS NULL AND g.expires_at > now()", "AND g.expires_at > now()")
    .foundBy(postgres("services/queue/Claims")),
  plant("an expired grant lets nothing be sent", fragments)
    .edit("AND g.revoked_at IS NULL AND g.expires_at > now()", "AND g.revoked_at IS NULL")
    .foundBy(postgres("services/queue/Claims")),
  plant("only a grant with all scopes of the acceptance lets an operation be sent", fragments)
    .edit("g.scopes @> o.scopes", "g.scopes && o.scopes")
    .foundBy(postgres("services/queue/Claims")),
  plant("only a grant of the same subject lets an operation be sent", fragments)
    .edit(
      "AND g.resource_owner = o.resource_owner AND g.subject = o.subject",
      "AND g.resource_owner = o.resource_owner"
    )
    .foundBy(postgres("services/queue/Claims")),
  plant("nothing is sent for a deactivated client", fragments)
    .edit("c.id = o.client_id AND c.active)", "c.id = o.client_id)")
    .foundBy(postgres("services/queue/Claims")),
  plant("nothing is sent over a disconnected provider connection", fragments)
    .edit("p.id = o.provider_connection_id AND p.connected)", "p.id = o.provider_connection_id)")
    .foundBy(postgres("services/queue/Claims")),
  plant("nothing is claimed on a database that could forget commits", fragments)
    .edit(
      "current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'",
      "current_setting('fsync') = 'on'"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("nothing is claimed in another cluster before a worker has prepared there", fragments)
    .edit("JOIN pg_control_system() s USING (system_identifier)", "CROSS JOIN pg_control_system() s")
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres"), postgres("services/queue/OperationColumns"))
]
