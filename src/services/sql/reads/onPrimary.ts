/**
 * A condition that only a primary server can check. In recovery the statement fails with SQLSTATE 55000, which
 * `orUnavailable` turns into `StoreUnavailable`.
 *
 * A standby, and a demoted primary, may show commits that a failover reverts, and lack revocations that the primary has
 * committed. PostgreSQL checks the condition once, before it reads a row. So a standby that lacks a grant fails as well, and
 * does not report the grant as unknown.
 */
export const onPrimary = "(SELECT pg_current_wal_insert_lsn()) IS NOT NULL"

/** The same, for a statement that a standby may serve under the rules of the room `cluster`. `forStandby` makes it the standby's. */
export const onPrimaryOrStandby = "(SELECT pg_current_wal_insert_lsn() AS or_on_standby) IS NOT NULL"
