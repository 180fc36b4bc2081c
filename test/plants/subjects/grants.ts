/** Mistakes in grants, revocations and registrations: a revocation is final, and holds at the very next read. */
import { long, type Plant, plant, postgres, story, system } from "../Plant.ts"

const tables = "migrations/0001_grants.sql"
const revocations = "migrations/0007_grant_revocations.sql"
const functions = "migrations/0008_grant_functions.sql"
const revocation = "src/services/sql/grants/SqlGrants.ts"
const memory = "src/services/memory/MemoryGrants.ts"

export const grants: ReadonlyArray<Plant> = [
  plant("a revocation is final", tables)
    .edit(
      "IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN",
      "IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at <> OLD.revoked_at THEN"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the clock of the database sets the time of a revocation, never the caller", tables)
    .edit(
      "    NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());\n  END IF;\n  IF NEW.registered",
      "  END IF;\n  IF NEW.registered"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements"), postgres("services/schema/ForgedDates")),
  plant("the identity of a grant never changes", tables)
    .edit(
      "(NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at, NEW.issuer,\n" +
        "      NEW.external_id)\n    IS DISTINCT FROM\n" +
        "    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at, OLD.issuer,\n" +
        "      OLD.external_id)",
      "(NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at)\n" +
        "    IS DISTINCT FROM\n" +
        "    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at)"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the scopes and the end of an issued grant never change", tables)
    .edit("    IF OLD.issuer IS NULL THEN\n", "    IF OLD.issuer IS NULL AND NEW.expires_at > OLD.expires_at THEN\n")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("a role that may not revoke only adds scopes", tables)
    .edit(
      "OLD.registered_by_event_at IS NOT NULL OR NOT NEW.scopes @> OLD.scopes OR NEW.expires_at < OLD.expires_at",
      "OLD.registered_by_event_at IS NOT NULL OR NEW.expires_at < OLD.expires_at"
    )
    .foundBy(system("services/WidenedGrants", "lets a role that may not revoke only add")),
  plant("grants are never deleted", tables)
    .edit(
      "CREATE TRIGGER grants_permanent BEFORE DELETE OR TRUNCATE ON grants",
      "CREATE TRIGGER grants_permanent BEFORE TRUNCATE ON grants"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("a token always names the same grant", tables)
    .edit(
      "CREATE TRIGGER access_tokens_immutable BEFORE UPDATE OR DELETE OR TRUNCATE",
      "CREATE TRIGGER access_tokens_immutable BEFORE DELETE OR TRUNCATE"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the rules of grants hold also under session_replication_role = replica", tables)
    .edit("ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_guard;\n", "")
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("the time of a revocation never goes back", revocations)
    .edit(
      "NEW.revoked_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.revoked_at);",
      "NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());"
    )
    .foundBy(postgres("services/schema/ForgedDates")),
  plant("revocations are never deleted", revocations)
    .edit(
      "CREATE TRIGGER grant_revocations_permanent BEFORE DELETE OR TRUNCATE",
      "CREATE TRIGGER grant_revocations_permanent BEFORE TRUNCATE"
    )
    .foundBy(postgres("services/schema/ForbiddenStatements")),
  plant("a registration and a revocation of one client always take turns", functions)
    .edit("  IF p_wait THEN\n    PERFORM lock_grants(p_client, true);\n  END IF;\n", "")
    .foundBy(postgres("services/grants/RevocationRaces")),
  plant("a registration takes its lock before it looks for revocations", functions)
    .edit(
      "  PERFORM require_read_committed();\n  PERFORM lock_grants(p_client, false);\n",
      "  PERFORM require_read_committed();\n"
    )
    .foundBy(postgres("services/grants/RevocationRaces")),
  plant("a stream of registrations never passes a waiting revocation", functions)
    .edit(
      "PERFORM FROM grant_locks WHERE client_id = p_client FOR NO KEY UPDATE;",
      "PERFORM FROM grant_locks WHERE client_id = p_client FOR SHARE;"
    )
    .foundBy(long("services/OpenTransactions", "makes registrations that follow a revocation wait behind it")),
  plant("a revocation always covers grants of unknown time", functions)
    .edit(
      "r.external_id IS NOT NULL OR p_granted_at IS NULL\n          OR p_granted_at <",
      "r.external_id IS NOT NULL\n          OR p_granted_at <"
    )
    .foundBy(postgres("services/grants/GrantsRevocation")),
  plant("a revoked name of a grant is revoked for ever", functions)
    .edit("AND (r.external_id IS NOT NULL OR p_granted_at IS NULL", "AND (p_granted_at IS NULL")
    .foundBy(postgres("services/grants/GrantsRevocation")),
  plant("a revocation of all issuers covers grants that are seen later", functions)
    .edit("\n          OR (r.client_id = p_client AND r.issuer IS NULL)", "")
    .foundBy(postgres("services/grants/GrantsRevocation")),
  plant("a token never adds to a grant that an event registered", functions)
    .edit(
      "WHERE g.id = v_id AND g.client_id = p_client AND g.registered_by_event_at IS NULL\n",
      "WHERE g.id = v_id AND g.client_id = p_client\n"
    )
    .foundBy(postgres("services/grants/GrantsRegistration")),
  plant("a registration never changes the subject of a grant", functions)
    .edit(
      "AND g.subject = p_subject AND p.resource_owner = p_owner\n      AND p.provider",
      "AND p.resource_owner = p_owner\n      AND p.provider"
    )
    .foundBy(postgres("services/grants/GrantsRegistration")),
  plant("a revocation keeps its first time when it is repeated", functions)
    .edit(
      "DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at) WHERE known.external_id IS NULL;",
      "DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at);"
    )
    .foundBy(postgres("services/grants/GrantsRevocation")),
  plant("a revocation also revokes grants that were locked at first", revocation)
    .edit("for (const wait of [false, true]) {", "for (const wait of [false]) {")
    .foundBy(postgres("services/grants/RevocationRaces")),
  plant("a lock that a session keeps delays the revocation of no other grant", revocation)
    .edit("for (const wait of [false, true]) {", "for (const wait of [true]) {")
    .foundBy(long("services/OpenTransactions", "blocks only the revocation of the grant that it locked")),
  plant("a client or a provider connection that is back reads and is paid again", revocation)
    .edit(
      "callAlone(sql, standingStatements[table], [id, good]),",
      "callAlone(sql, standingStatements[table], [id, false]),"
    )
    .foundBy(
      story("a postponed operation is claimed only once it is due"),
      story("a request binding is of one client")
    ),
  plant("a revocation of an unknown client of an issuer fails", revocation)
    .edit("        if (!row!.matched) return yield* new UnmatchedRevocation({ client_id, issuer })\n", "")
    .foundBy(postgres("services/grants/GrantsRevocation", "by the server's own client id fails")),
  plant("a revocation of one subject revokes no other subject", functions)
    .edit(
      "AND (p_grant IS NULL OR g.external_id = p_grant) AND (p_subject IS NULL OR g.subject = p_subject)\n" +
        "    AND (p_wait",
      "AND (p_grant IS NULL OR g.external_id = p_grant)\n    AND (p_wait"
    )
    .foundBy(postgres("services/grants/GrantsRevocation")),
  plant("a grant is revoked since the first of several revocations, in the database", functions)
    .edit("SELECT min(r.revoked_at) FROM grant_revocations r", "SELECT max(r.revoked_at) FROM grant_revocations r")
    .foundBy(postgres("services/grants/GrantsRevocation", "is revoked since the first one")),
  plant("a grant is revoked since the first of several revocations, in memory", memory)
    .edit(".toSorted(DateTime.Order)[0] ?? null", ".toSorted(DateTime.Order).at(-1) ?? null")
    .foundBy(postgres("services/grants/GrantsRevocation", "is revoked since the first one")),
  plant("a repeated revocation of a grant keeps the first time, in memory", memory)
    .edit("if (grant !== undefined && grant.revoked_at === null) memory", "if (grant !== undefined) memory")
    .foundBy(postgres("services/grants/Standing", "is final, and has one time"))
]
