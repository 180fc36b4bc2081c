/** Mistakes in claims and returned claims: at most one process has the right to send, and only with a good grant. */
import { type Plant, plant, postgres, story, unit } from "../Plant.ts"

const claimsFile = "src/services/sql/queue/SqlClaims.ts"
const memoryTable = "src/services/memory/MemoryQueueTable.ts"
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
    .foundBy(unit("services/rules/claimRounds")),
  plant("a postponed operation is claimed only once it is due", claimsFile)
    .edit("AND o.due_at <= ${dueBy(\"q.queue\")}${begin}", "${begin}")
    .foundBy(story("a postponed operation is claimed only once it is due")),
  plant("an operation that was accepted while the clock was ahead is claimed at once", claimsFile)
    .edit("= '' THEN now() ELSE 'infinity' END)`", "= '' THEN now() ELSE now() END)`")
    .foundBy(story("accepted while the clock was ahead")),
  plant("an operation without a good grant is never claimed", claimsFile)
    .edit(
      "sent_as = $12\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id AND due.ready",
      "sent_as = $12\n    FROM due WHERE o.id = due.id AND o.client_id = due.client_id"
    )
    .foundBy(story("neither claimed, sent nor read while")),
  plant("a returned claim gives no right to send", claimsFile)
    .edit("AND o.send_before = $3 AND o.return_reason IS NULL\n      AND", "AND o.send_before = $3\n      AND")
    .foundBy(story("a returned claim gives no right to send")),
  plant("only the holder of the present claim may still send", claimsFile)
    .edit("AND o.send_before = $3 AND o.return_reason IS NULL\n      AND", "AND o.return_reason IS NULL\n      AND")
    .foundBy(story("only under its revision and its send_before")),
  plant("after a revocation no attempt is repeated", claimsFile)
    .edit("AND o.return_reason IS NULL\n      AND ${standing(\"send\")}", "AND o.return_reason IS NULL")
    .foundBy(story("neither claimed, sent nor read while")),
  plant("a claimed operation always has the id of its worker", claimsFile)
    .edit(", claimed_by = $9,\n", ",\n")
    .foundBy(story("a restart ends")),
  plant("a take-over always sets a later send_before", claimsFile)
    .edit("greatest(now() + ${millis(\"$3\")}, o.send_before + interval '1 millisecond')", "now() + ${millis(\"$3\")}")
    .foundBy(story("a take-over has a later send_before")),
  plant("only the present holder returns a claim", claimsFile)
    .edit(
      "o.state = 'submitting' AND o.send_before = $3 AND o.return_reason IS NULL\n    AND NOT",
      "o.state = 'submitting' AND o.return_reason IS NULL\n    AND NOT"
    )
    .foundBy(story("a returned claim gives no right to send")),
  plant("a claim of an earlier timeline is never taken over", claimsFile)
    .edit("AND o.timeline = (SELECT timeline FROM here)", "AND EXISTS (SELECT FROM here)")
    .foundBy(story("a returned claim of an earlier timeline")),
  plant("a returned claim is taken over at most once", claimsFile)
    .edit("      FOR UPDATE OF o SKIP LOCKED\n    ) o LIMIT $9", "    ) o LIMIT $9")
    .foundBy(postgres("services/queue/ConcurrentClaims", "take over each returned claim once")),
  plant("returned claims are taken over without an end", "src/submission/attempts/claimOperations.ts")
    .edit("if (found.length > 0) emptySince.delete(provider)", "if (found.length > 0) return []")
    .foundBy(unit("submission/attempts/LocalFailures", "ends none of 200 operations")),
  plant("operations for which the provider had no permit are claimed once it has one", "src/submission/Poller.ts")
    .edit("isHeldBack ? Math.min(interval, options.reopensIn?.() ?? interval) : interval", "interval")
    .foundBy(unit("submission/Poller", "polls again when its allowance grows")),
  plant("an operation that no process announced is claimed within the poll interval", "src/submission/Poller.ts")
    .edit("      Effect.sleep(pause),\n", "")
    .foundBy(unit("submission/attempts/Wakeup", "that is not announced"), unit("submission/Poller", "at intervals")),
  plant("a returned claim is taken over only once it is due", claimsFile)
    .edit("AND o.provider = $1 AND o.due_at <= now()", "AND o.provider = $1")
    .foundBy(story("a returned claim is taken over once")),
  plant("a revoked grant lets nothing be sent", fragments)
    .edit("AND g.revoked_at IS NULL AND g.expires_at > now()", "AND g.expires_at > now()")
    .foundBy(story("neither claimed, sent nor read while")),
  plant("an expired grant lets nothing be sent", fragments)
    .edit("AND g.revoked_at IS NULL AND g.expires_at > now()", "AND g.revoked_at IS NULL")
    .foundBy(story("neither claimed, sent nor read while")),
  plant("only a grant with all scopes of the acceptance lets an operation be sent", fragments)
    .edit("g.scopes @> o.scopes", "g.scopes && o.scopes")
    .foundBy(story("no grant with fewer scopes")),
  plant("limits that a grant gets later let nothing be sent that was accepted without", fragments)
    .edit(
      "coalesce(o.limited_by_grant, o.limit_amount IS NOT NULL) AND g.authorization_details",
      "g.authorization_details"
    )
    .foundBy(postgres("services/queue/Claims", "got limits")),
  plant("in memory, limits that a grant gets later let nothing be sent that was accepted without", memoryTable)
    .edit("limits === undefined || limited_by_grant && accepted", "limits === undefined || accepted")
    .foundBy(postgres("services/queue/Claims", "got limits")),
  plant("what the provider acknowledged is never returned", claimsFile)
    .edit("\n    AND NOT o.acknowledged\n  RETURNING 1", "\n  RETURNING 1")
    .foundBy(story("also after a claim by hand")),
  plant("in memory, what the provider acknowledged is never returned", "src/services/memory/MemoryClaims.ts")
    .edit(" && !found.acknowledged && send_before", " && send_before")
    .foundBy(story("also after a claim by hand")),
  plant("limits of a token do not count as those of the grant", "migrations/0043_limited_by_grant.sql")
    .edit("-> 'limits' -> 0) <> 'null'", "-> 'limits') <> 'null'")
    .foundBy(postgres("services/queue/Claims", "got limits")),
  plant("in memory, limits of a token do not count as those of the grant", "src/services/memory/MemoryAcceptance.ts")
    .edit("limited_by_grant: grant.authorization_details !== undefined,", "limited_by_grant: true,")
    .foundBy(postgres("services/queue/Claims", "got limits")),
  plant("no grant with other limits lets an operation be sent", fragments)
    .edit("AND ${hasNoOtherLimits}", "AND true")
    .foundBy(story("only if that has no limits, or the same")),
  plant("another grant with the same limits lets an operation be sent", fragments)
    .edit(
      "coalesce(o.limited_by_grant, o.limit_amount IS NOT NULL) AND g.authorization_details",
      "false AND g.authorization_details"
    )
    .foundBy(story("only if that has no limits, or the same")),
  plant("in memory, no grant with other limits lets an operation be sent", memoryTable)
    .edit(" && hasNoOtherLimits(record, grant))", ")")
    .foundBy(story("only if that has no limits, or the same")),
  plant("only a grant of the same subject lets an operation be sent", fragments)
    .edit(
      "AND g.resource_owner = o.resource_owner AND g.subject = o.subject",
      "AND g.resource_owner = o.resource_owner"
    )
    .foundBy(story("through another grant of the same owner")),
  plant("nothing is sent for a deactivated client", fragments)
    .edit("c.id = o.client_id AND c.active)", "c.id = o.client_id)")
    .foundBy(story("neither claimed, sent nor read while")),
  plant("nothing is sent over a disconnected provider connection", fragments)
    .edit("p.id = o.provider_connection_id AND p.connected)", "p.id = o.provider_connection_id)")
    .foundBy(story("neither claimed, sent nor read while")),
  plant("nothing is claimed on a database that could forget commits", fragments)
    .edit(
      "current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'",
      "current_setting('fsync') = 'on'"
    )
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres")),
  plant("nothing is claimed in another cluster before a worker has prepared there", fragments)
    .edit("SELECT s.system_identifier, d.oid,", "SELECT (SELECT system_identifier FROM ledger_home), d.oid,")
    .foundBy(postgres("services/queue/ReturnedClaimsInPostgres"), postgres("services/queue/OperationColumns")),
  plant("a claim takes accepted operations only", claimsFile)
    .edit("const claimable = `o.state = 'accepted' AND", "const claimable = `o.state IN ('accepted', 'submitting') AND")
    .foundBy(story("an operation is claimed once")),
  plant("a claim takes the oldest operations first", claimsFile)
    .edit(
      "        ORDER BY o.due_at LIMIT ${planned}\n        FOR",
      "        ORDER BY o.due_at DESC LIMIT ${planned}\n        FOR"
    )
    .foundBy(story("an operation is claimed once")),
  plant("a claim takes operations of its provider alone", claimsFile)
    .edit("'accepted' AND o.provider = $1 AND", "'accepted' AND (o.provider = $1 OR true) AND")
    .foundBy(story("a claim takes operations of its provider alone")),
  plant("an operation that was accepted on an earlier timeline is never claimed", claimsFile)
    .edit(
      "${claimableTimeline} = (SELECT timeline FROM began)`",
      "${claimableTimeline} <= (SELECT timeline FROM began)`"
    )
    .foundBy(story("accepted on an earlier timeline")),
  plant("only a grant of the same client lets an operation be sent", fragments)
    .edit("WHERE g.client_id = o.client_id AND", "WHERE")
    .foundBy(story("through another grant of the same owner")),
  plant("only a grant over the same provider connection lets an operation be sent", fragments)
    .edit("AND g.provider_connection_id = o.provider_connection_id AND g.revoked_at", "AND g.revoked_at")
    .foundBy(story("through another grant of the same owner")),
  plant("an operation that waits is examined less often with its age", fragments)
    .edit("(now() - o.updated_at) / 10)", "(now() - o.updated_at) / 20)")
    .foundBy(story("examined less often")),
  plant("the age for a review counts from the end of the last one", fragments)
    .edit("greatest(o.updated_at, o.reviewed_at) <=", "o.updated_at <=")
    .foundBy(story("is under review, also after an operator cleared it")),
  plant("a returned claim without a good grant is never taken over", claimsFile)
    .edit(
      "due.client_id AND due.ready\n    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id\n  ), put_off AS (\n    UPDATE operations o\n    SET due_at = now() + ${idle(\"$5\")}, lacks_key",
      "due.client_id\n    RETURNING ${submissionColumns}, o.created_at, o.request_digest, due.payload, due.key_id\n  ), put_off AS (\n    UPDATE operations o\n    SET due_at = now() + ${idle(\"$5\")}, lacks_key"
    )
    .foundBy(story("neither claimed, sent nor read while")),
  plant("returned claims are taken over in the order of their due times", claimsFile)
    .edit(
      "      ORDER BY o.due_at LIMIT ${planned}\n      FOR",
      "      ORDER BY o.due_at DESC LIMIT ${planned}\n      FOR"
    )
    .foundBy(story("returned claims are taken over in the order")),
  plant("returned claims of its provider alone are taken over", claimsFile)
    .edit("AND o.provider = $1 AND o.due_at <= now()", "AND (o.provider = $1 OR true) AND o.due_at <= now()")
    .foundBy(story("a claim takes operations of its provider alone")),
  plant("a review stops no worker", claimsFile)
    .edit("const claimable = `o.state", "const claimable = `NOT o.under_review AND o.state")
    .foundBy(story("a review begins and ends"))
]
