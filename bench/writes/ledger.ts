/**
 * The ledger of the benchmark: as the migrations make it, with settled operations.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Progress } from "../../src/cli/ProgressBar.ts"
import { ClientId, type GrantIdentity } from "../../src/domain/Grant.ts"
import { Grants } from "../../src/services/Grants.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { grantFor } from "../shared/database.ts"

const fill = `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
    request_digest, state, revision)
  SELECT uuidv7(), g.client_id, g.resource_owner, g.subject, g.id, g.provider_connection_id, 'payment', $2::text || n,
    sha256(convert_to(n::text, 'UTF8')), 'accepted', 1
  FROM generate_series(1, $3::int) AS n JOIN grants g ON g.id = ($1::uuid[])[1 + n % cardinality($1::uuid[])]`

const batches = 20

/**
 * Adds the settled operations to an empty ledger, each batch in a transaction of its own. Without statistics PostgreSQL would keep
 * the plans for an empty table.
 */
const age = Effect.fnUntraced(function*(grants: ReadonlyArray<string>, count: number, progress: Progress) {
  const sql = yield* SqlClient.SqlClient
  for (let batch = 0; batch < batches; batch++) {
    yield* sql.unsafe(fill, [grants, `old-${batch}-`, Math.ceil(count / batches)])
    yield* sql`UPDATE operations SET state = 'cancelled', revision = 2 WHERE state = 'accepted'`
    if (batch === 0) yield* sql.unsafe("ANALYZE").unprepared
    progress.advance(count / batches)
  }
  yield* sql`SELECT fold_operation_counts('0')`
  yield* sql.unsafe("VACUUM (ANALYZE)").unprepared
})

/** One grant for each client of the provider. */
export const prepareLedger = Effect.fnUntraced(function*(clients: number, count: number, progress: Progress) {
  yield* migrate
  const grants = yield* Grants
  const identities: Array<GrantIdentity> = []
  for (let n = 0; n < clients; n++) {
    const { grant } = yield* grants.issue({ ...grantFor("payer"), client_id: ClientId.make(`agent-${n}`) })
    identities.push({ client_id: grant.client_id, grant_id: grant.grant_id, subject: grant.subject })
  }
  yield* age(identities.map(({ grant_id }) => grant_id), count, progress)
  return identities
})
