/**
 * A condition that only a primary server can check. In recovery the statement fails with SQLSTATE 55000, which
 * `orUnavailable` takes for a store that is away.
 *
 * A standby, and a primary that was demoted, may show commits that a failover takes back. They also miss revocations
 * that the primary has committed. PostgreSQL checks the condition once, before it looks for any row: a standby that lacks
 * a grant fails as well, and does not call the grant unknown.
 */
export const onPrimary = "(SELECT pg_current_wal_insert_lsn()) IS NOT NULL"
