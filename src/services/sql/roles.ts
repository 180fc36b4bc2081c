/**
 * The database roles and their privileges: the only source of the GRANT statements. `roles create` and `roles grant` print
 * them, docs/postgresql.md explains them, and a test tries each role on each table and column with each verb.
 */
import { migrationsTable } from "../Migrations.ts"

/** The columns of a privilege: these, or all columns of the table, also those of later migrations. */
export type Columns = ReadonlyArray<string> | "all"

/** The privileges of a role on a table. It has no others: no role may TRUNCATE, for example. */
export interface TablePrivileges {
  readonly SELECT?: Columns
  readonly INSERT?: Columns
  readonly UPDATE?: Columns
  readonly DELETE?: true
}

interface RolePrivileges {
  readonly tables: Readonly<Record<string, TablePrivileges>>
  /** Functions that run with the rights of the owner. Any role may call the other functions, which give no rights. */
  readonly functions: ReadonlyArray<string>
}

/** `serve` connects as reader and provisioner, `migrate` as owner; `work` and the other commands as writer. */
export type Role = "reader" | "provisioner" | "writer"

const columns = (names: string): ReadonlyArray<string> => names.trim().split(/\s+/)

const grantColumns = ["id", "client_id", "resource_owner", "subject", "provider_connection_id", "scopes", "expires_at"]

/** The privileges of each role. `roles grant` prints them. */
export const roles: Readonly<Record<Role, RolePrivileges>> = {
  /** It has SELECT on columns only, and no UPDATE: so the role can lock neither a row nor a table. */
  reader: {
    tables: {
      clients: { SELECT: ["id", "active"] },
      provider_connections: { SELECT: ["id", "connected"] },
      grants: { SELECT: [...grantColumns, "revoked_at"] },
      access_tokens: { SELECT: ["digest", "grant_id", "client_id"] },
      operations: {
        SELECT: columns(`
          id client_id resource_owner subject idempotency_key type state revision under_review created_at updated_at
          completed_at failure_code failure_message change_position provider due_at waiting timeline hold_placed
          return_reason lacks_key
        `)
      },
      operation_counts: { SELECT: "all" },
      worker_reports: { SELECT: "all" },
      operation_reversals: { SELECT: ["operation_id", "client_id", "provider", "recorded_at"] },
      reversal_reads: { SELECT: ["provider", "due_at"] },
      approvals: { SELECT: ["operation_id", "client_id", "state", "expires_at"] },
      ledger_home: { SELECT: ["system_identifier", "database", "operations_oid", "change_offset", "history"] },
      change_marks: { SELECT: ["timeline", "id", "high", "pending"] },
      token_keys: { SELECT: ["key", "created_at"] },
      [migrationsTable]: { SELECT: ["migration_id"] }
    },
    functions: ["remaining_limits", "replication_gap", "write_confirmation"]
  },
  /** Registers the grants that tokens show. It writes by one function, which only adds scopes and time. */
  provisioner: {
    tables: {
      clients: { SELECT: ["id", "active"] },
      provider_connections: { SELECT: ["id", "provider", "connected"] },
      grants: {
        SELECT: columns(`
          ${
          grantColumns.join(" ")
        } created_at revoked_at issuer external_id registered_by_event_at authorization_details
        `)
      }
    },
    functions: ["provision_grant", "provision_limited_grant", "replication_gap", "write_confirmation"]
  },
  writer: {
    tables: {
      clients: { SELECT: "all", INSERT: ["id"], UPDATE: ["active"] },
      provider_connections: { SELECT: "all", INSERT: ["id", "resource_owner", "provider"], UPDATE: ["connected"] },
      grants: { SELECT: "all", INSERT: [...grantColumns, "authorization_details"], UPDATE: ["revoked_at"] },
      access_tokens: { SELECT: "all", INSERT: ["digest", "grant_id", "client_id"] },
      grant_revocations: { SELECT: "all" },
      operations: {
        SELECT: "all",
        INSERT: "all",
        UPDATE: columns(`
          state revision under_review failure_code failure_message evidence due_at waiting lacks_key timeline hold_placed
          hold_outlasts_approval examined_timeline unsent_in send_before claimed_by return_reason reference reads reviewed_at reading_since
          hinted_at last_read fence_started_at fencing_until provider_account sent_as
        `)
      },
      operation_history: { SELECT: "all" },
      // Not decided_at: the database chooses it. Acceptances ask for approvals, by a trigger.
      approvals: { SELECT: "all", UPDATE: ["state", "decided_digest", "decided_as", "decider", "reason"] },
      // Not recorded_at: the database chooses it.
      operation_reversals: { SELECT: "all", INSERT: ["operation_id", "client_id", "provider", "evidence"] },
      reversal_reads: {
        SELECT: "all",
        INSERT: ["operation_id", "client_id", "provider", "due_at", "until"],
        UPDATE: ["due_at", "reading_since", "hinted_at"],
        DELETE: true
      },
      operation_payloads: { SELECT: "all", INSERT: "all" },
      // Not id and at: the database chooses both.
      operator_actions: {
        SELECT: "all",
        INSERT: columns("operator via action operation_id operation_ids affected reason result question")
      },
      ledger_home: {
        SELECT: "all",
        UPDATE: columns(`
          system_identifier database operations_oid history epoch epoch_life epoch_at witnessed_since is_witness_settled
          is_release_due claims_stopped_until
        `)
      },
      claim_batches: {
        SELECT: "all",
        INSERT: ["worker", "life", "provider", "batch"],
        UPDATE: ["batch", "updated_at"],
        DELETE: true
      },
      witness_checks: { SELECT: "all", INSERT: ["epoch", "life", "result", "held", "missing"], UPDATE: ["released"] },
      change_marks: {
        SELECT: "all",
        INSERT: ["timeline", "high", "pending"],
        UPDATE: ["high", "pending", "marked_at"]
      },
      token_keys: { SELECT: "all" },
      operation_counts: { SELECT: "all" },
      worker_reports: {
        SELECT: "all",
        // The previous version writes circuits.
        INSERT: ["process_id", "worker_id", "version", "circuits", "clock_skew_ms", "pauses"],
        UPDATE: ["seen_at", "circuits", "clock_skew_ms", "pauses"],
        DELETE: true
      },
      provider_limits: {
        SELECT: "all",
        INSERT: ["provider", "closed_until"],
        UPDATE: ["shared_until", "reads_until", "closed_until"]
      },
      [migrationsTable]: { SELECT: "all" }
    },
    functions: [
      "provision_grant",
      "provision_limited_grant",
      "register_grant",
      "register_limited_grant",
      "revoke_grants",
      "change_standing",
      "remaining_limits",
      "fold_operation_counts",
      "replication_gap",
      "write_confirmation"
    ]
  }
}

/** Further privileges of the reader, where it checks DPoP proofs. */
export const proofTables: RolePrivileges["tables"] = {
  dpop_proofs: { SELECT: ["digest", "expires_at"], INSERT: ["digest", "expires_at"], DELETE: true }
}

/** Tables without privileges for any role: functions and triggers use them with the rights of the owner. */
export const closedTables: ReadonlyArray<string> = ["grant_locks", "operation_count_folds"]

/** The names of the roles of a deployment: `PREFIX_reader` and so on. */
interface Naming {
  readonly prefix: string
}

/** The roles are `gateway_reader`, `gateway_writer` and so on. */
export const defaultNaming: Naming = { prefix: "gateway" }

const nameOf = ({ prefix }: Naming, role: Role | "owner") => `${prefix}_${role}`

/** Most connections of the roles that meet requests. The other roles have no limit: connections must remain for a revocation. */
export interface ConnectionLimits {
  readonly reader: number
  readonly provisioner: number
}

/** Creates the roles and the database. A superuser runs it once, in any database. */
export const createRoles = (
  database: string,
  limits: ConnectionLimits,
  naming: Naming = defaultNaming
): ReadonlyArray<string> => {
  const [owner, writer, provisioner, reader] = (["owner", "writer", "provisioner", "reader"] as const).map((role) =>
    nameOf(naming, role)
  )
  return [
    ...[owner, writer].map((role) => `CREATE ROLE ${role} LOGIN;`),
    `CREATE ROLE ${provisioner} LOGIN CONNECTION LIMIT ${limits.provisioner};`,
    `CREATE ROLE ${reader} LOGIN CONNECTION LIMIT ${limits.reader};`,
    // It can see and end the sessions of the provisioner, as `grants blockers` does.
    `GRANT ${provisioner} TO ${writer};`,
    // Its function `replication_gap` tells the other roles how far the standbys are, and nothing else of the sessions.
    `GRANT pg_read_all_stats TO ${owner};`,
    `CREATE DATABASE ${database} OWNER ${owner};`,
    `REVOKE CONNECT, TEMPORARY ON DATABASE ${database} FROM PUBLIC;`,
    `GRANT CONNECT ON DATABASE ${database} TO ${writer}, ${provisioner}, ${reader};`
  ]
}

/**
 * Revokes what PostgreSQL grants to every role, and bounds what it cannot revoke. A superuser runs it once, in the new database.
 *
 * - Objects in the schema.
 * - Large objects and exported snapshots, whose files can fill the disk.
 * - Logical messages, which write WAL without a limit, also in a transaction that only reads.
 * - Advisory locks, which can fill the lock table that all sessions share.
 * - Temporary files of statements that sort or keep much. Reader and provisioner need none of this size.
 *
 * The functions are found by name, because later versions of PostgreSQL have other parameters.
 */
export const protectDatabase = (naming: Naming = defaultNaming): ReadonlyArray<string> => [
  "REVOKE CREATE ON SCHEMA public FROM PUBLIC;",
  ...(["provisioner", "reader"] as const).map((role) =>
    `ALTER ROLE ${nameOf(naming, role)} SET temp_file_limit = '64MB';`
  ),
  `DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~
    '^(lo_creat|lo_create|lo_from_bytea|pg_export_snapshot|pg_logical_emit_message|pg_(try_)?advisory_(xact_)?lock(_shared)?)$'
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    IF f::text LIKE 'pg_logical_emit_message(boolean,text,text%' OR f::text = 'pg_try_advisory_xact_lock(bigint)' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ${nameOf(naming, "owner")}', f);
    END IF;
  END LOOP;
END $$;`
]

/** In lines of at most 112 columns. */
const wrap = (text: string): string => {
  const lines = [""]
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!
    if (line === "") lines[lines.length - 1] = word
    else if (line.length + 1 + word.length > 110) lines.push(word)
    else lines[lines.length - 1] = `${line} ${word}`
  }
  return lines.join("\n  ")
}

const verbs = ["SELECT", "INSERT", "UPDATE"] as const

const onTable = (role: string, [table, privileges]: readonly [string, TablePrivileges]): string => {
  const rights = verbs.flatMap((verb) => {
    const columns = privileges[verb]
    if (columns === undefined) return []
    return columns === "all" ? [verb] : [`${verb} (${columns.join(", ")})`]
  })
  return wrap(`GRANT ${[...rights, ...privileges.DELETE ? ["DELETE"] : []].join(", ")} ON ${table} TO ${role};`)
}

const onTables = (role: string, tables: RolePrivileges["tables"]) =>
  Object.entries(tables).map((entry) => onTable(role, entry))

/**
 * Grants each role its privileges, and revokes those that an earlier version granted. The owner runs it after each migration,
 * in one transaction. The reader keeps its privileges on `proofTables`: servers that check DPoP proofs would fail meanwhile.
 */
export const grantPrivileges = (naming: Naming = defaultNaming): ReadonlyArray<string> => {
  const names = (["reader", "provisioner", "writer"] as const).map((role) => [role, nameOf(naming, role)] as const)
  const everyone = names.map(([, name]) => name).join(", ")
  const tables = new Set(
    [...Object.values(roles).flatMap(({ tables }) => Object.keys(tables)), ...closedTables]
  )
  const proofs = Object.keys(proofTables).join(", ")
  const functions = new Set(Object.values(roles).flatMap(({ functions }) => functions))
  return [
    wrap(`REVOKE ALL ON ${[...tables].join(", ")} FROM ${everyone};`),
    wrap(`REVOKE ALL ON ${proofs} FROM ${nameOf(naming, "writer")}, ${nameOf(naming, "provisioner")};`),
    wrap(`REVOKE UPDATE, TRUNCATE, REFERENCES, TRIGGER ON ${proofs} FROM ${nameOf(naming, "reader")};`),
    wrap(`REVOKE ALL ON FUNCTION ${[...functions].join(", ")} FROM ${everyone};`),
    ...names.flatMap(([role, name]) => [
      ...onTables(name, roles[role].tables),
      ...roles[role].functions.length === 0
        ? []
        : [wrap(`GRANT EXECUTE ON FUNCTION ${roles[role].functions.join(", ")} TO ${name};`)]
    ])
  ]
}

/** Grants `proofTables`. The owner runs it after `grantPrivileges`, where the reader checks DPoP proofs. */
export const grantProofs = (naming: Naming = defaultNaming): ReadonlyArray<string> =>
  onTables(nameOf(naming, "reader"), proofTables)
