/**
 * A condition that only a primary server can check. In recovery the statement fails with SQLSTATE 55000, which
 * `orUnavailable` turns into `StoreUnavailable`.
 *
 * A standby, and a demoted primary, may show commits that a failover reverts, and lack revocations that the primary has
 * committed. PostgreSQL checks the condition once, before it reads a row. So a standby that lacks a grant fails as well, and
 * does not report the grant as unknown.
 */
export const onPrimary = "(SELECT pg_current_wal_insert_lsn()) IS NOT NULL"

/** The same, for a statement that a standby may serve under the rules of `cluster/standbys/StandbyReads`. `forStandby` makes it the standby's. */
export const onPrimaryOrStandby = "(SELECT pg_current_wal_insert_lsn() AS or_on_standby) IS NOT NULL"

/** Only a server in recovery can check it. A promoted server fails with SQLSTATE 55000: it may have commits that its primary lacks. */
const onStandby = "(SELECT pg_is_wal_replay_paused()) IS NOT NULL"

/** The statement for a standby. Null: only the primary may serve it. */
export const forStandby = (text: string): string | null =>
  text.includes(onPrimaryOrStandby) ? text.replace(onPrimaryOrStandby, onStandby) : null
