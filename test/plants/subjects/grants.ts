/** Mistakes in grants, revocations and registrations: a revocation is final, and holds at the very next read. */
import { long, type Plant, postgres, system } from "../Plant.ts"

const tables = "migrations/0001_grants.sql"
const revocations = "migrations/0007_grant_revocations.sql"
const functions = "migrations/0008_grant_functions.sql"
const revocation = "src/services/sql/grants/SqlGrants.ts"

export const grants: ReadonlyArray<Plant> = [
  {
    rule: "a revocation is final",
    file: tables,
    from: "IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN",
    to: "IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at <> OLD.revoked_at THEN",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the clock of the database sets the time of a revocation, never the caller",
    file: tables,
    from: "    NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());\n  END IF;\n  IF NEW.registered",
    to: "  END IF;\n  IF NEW.registered",
    tests: [
      postgres("services/schema/ForbiddenStatements"),
      postgres("services/schema/ForgedDates")
    ]
  },
  {
    rule: "the identity of a grant never changes",
    file: tables,
    from:
      "(NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at, NEW.issuer,\n"
      + "      NEW.external_id)\n    IS DISTINCT FROM\n"
      + "    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at, OLD.issuer,\n"
      + "      OLD.external_id)",
    to: "(NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at)\n"
      + "    IS DISTINCT FROM\n"
      + "    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at)",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the scopes and the end of an issued grant never change",
    file: tables,
    from: "    IF OLD.issuer IS NULL THEN\n",
    to: "    IF OLD.issuer IS NULL AND NEW.expires_at > OLD.expires_at THEN\n",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a role that may not revoke only adds scopes",
    file: tables,
    from: "OLD.registered_by_event_at IS NOT NULL OR NOT NEW.scopes @> OLD.scopes OR NEW.expires_at < OLD.expires_at",
    to: "OLD.registered_by_event_at IS NOT NULL OR NEW.expires_at < OLD.expires_at",
    tests: [system("services/WidenedGrants", "lets a role that may not revoke only add")]
  },
  {
    rule: "grants are never deleted",
    file: tables,
    from: "CREATE TRIGGER grants_permanent BEFORE DELETE OR TRUNCATE ON grants",
    to: "CREATE TRIGGER grants_permanent BEFORE TRUNCATE ON grants",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a token always names the same grant",
    file: tables,
    from: "CREATE TRIGGER access_tokens_immutable BEFORE UPDATE OR DELETE OR TRUNCATE",
    to: "CREATE TRIGGER access_tokens_immutable BEFORE DELETE OR TRUNCATE",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the rules of grants hold also under session_replication_role = replica",
    file: tables,
    from: "ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_guard;\n",
    to: "",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "the time of a revocation never goes back",
    file: revocations,
    from: "NEW.revoked_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.revoked_at);",
    to: "NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());",
    tests: [postgres("services/schema/ForgedDates")]
  },
  {
    rule: "revocations are never deleted",
    file: revocations,
    from: "CREATE TRIGGER grant_revocations_permanent BEFORE DELETE OR TRUNCATE",
    to: "CREATE TRIGGER grant_revocations_permanent BEFORE TRUNCATE",
    tests: [postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a registration and a revocation of one client always take turns",
    file: functions,
    from: "  IF p_wait THEN\n    PERFORM lock_grants(p_client, true);\n  END IF;\n",
    to: "",
    tests: [postgres("services/grants/RevocationRaces")]
  },
  {
    rule: "a registration takes its lock before it looks for revocations",
    file: functions,
    from: "  PERFORM require_read_committed();\n  PERFORM lock_grants(p_client, false);\n",
    to: "  PERFORM require_read_committed();\n",
    tests: [postgres("services/grants/RevocationRaces")]
  },
  {
    rule: "a stream of registrations never passes a waiting revocation",
    file: functions,
    from: "PERFORM FROM grant_locks WHERE client_id = p_client FOR NO KEY UPDATE;",
    to: "PERFORM FROM grant_locks WHERE client_id = p_client FOR SHARE;",
    tests: [long("services/OpenTransactions", "makes registrations that follow a revocation wait behind it")]
  },
  {
    rule: "a revocation always covers grants of unknown time",
    file: functions,
    from: "r.external_id IS NOT NULL OR p_granted_at IS NULL\n          OR p_granted_at <",
    to: "r.external_id IS NOT NULL\n          OR p_granted_at <",
    tests: [postgres("services/grants/GrantsRevocation")]
  },
  {
    rule: "a revoked name of a grant is revoked for ever",
    file: functions,
    from: "AND (r.external_id IS NOT NULL OR p_granted_at IS NULL",
    to: "AND (p_granted_at IS NULL",
    tests: [postgres("services/grants/GrantsRevocation")]
  },
  {
    rule: "a revocation of all issuers covers grants that are seen later",
    file: functions,
    from: "\n          OR (r.client_id = p_client AND r.issuer IS NULL)",
    to: "",
    tests: [postgres("services/grants/GrantsRevocation")]
  },
  {
    rule: "a token never adds to a grant that an event registered",
    file: functions,
    from: "WHERE g.id = v_id AND g.client_id = p_client AND g.registered_by_event_at IS NULL\n",
    to: "WHERE g.id = v_id AND g.client_id = p_client\n",
    tests: [postgres("services/grants/GrantsRegistration")]
  },
  {
    rule: "a registration never changes the subject of a grant",
    file: functions,
    from: "AND g.subject = p_subject AND p.resource_owner = p_owner\n      AND p.provider",
    to: "AND p.resource_owner = p_owner\n      AND p.provider",
    tests: [postgres("services/grants/GrantsRegistration")]
  },
  {
    rule: "a revocation keeps its first time when it is repeated",
    file: functions,
    from: "DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at) WHERE known.external_id IS NULL;",
    to: "DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at);",
    tests: [postgres("services/grants/GrantsRevocation")]
  },
  {
    rule: "a revocation also revokes grants that were locked at first",
    file: revocation,
    from: "for (const wait of [false, true]) {",
    to: "for (const wait of [false]) {",
    tests: [postgres("services/grants/RevocationRaces")]
  },
  {
    rule: "a lock that a session keeps delays the revocation of no other grant",
    file: revocation,
    from: "for (const wait of [false, true]) {",
    to: "for (const wait of [true]) {",
    tests: [long("services/OpenTransactions", "blocks only the revocation of the grant that it locked")]
  },
  {
    rule: "a client or a provider connection that is back reads and is paid again",
    file: revocation,
    from: "callAlone(sql, standingStatements[table], [id, good]),",
    to: "callAlone(sql, standingStatements[table], [id, false]),",
    tests: [postgres("services/queue/Claims", "waits until it is due, also while another"), postgres("services/ledger/Acceptance", "through another provider connection")]
  },
  {
    rule: "a revocation of an unknown client of an issuer fails",
    file: "src/services/sql/grants/SqlGrants.ts",
    from: "        if (!row!.matched) return yield* new UnmatchedRevocation({ client_id: client, issuer })\n",
    to: "",
    tests: [postgres("services/grants/GrantsRevocation", "by the server's own client id fails")]
  },
  {
    rule: "a revocation of one subject revokes no other subject",
    file: functions,
    from: "AND (p_grant IS NULL OR g.external_id = p_grant) AND (p_subject IS NULL OR g.subject = p_subject)\n"
      + "    AND (p_wait",
    to: "AND (p_grant IS NULL OR g.external_id = p_grant)\n    AND (p_wait",
    tests: [postgres("services/grants/GrantsRevocation")]
  }
]
