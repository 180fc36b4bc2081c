/**
 * Provider limits in PostgreSQL: one row for each provider, and one statement for each reservation.
 *
 * A statement reads the clock after it has locked the row. So the instants of a row's reservations have the order of the
 * reservations, unless the clock is set back.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../../domain/Grant.ts"
import { longestRetryAfter, type PermitDemand, type PermitTerms } from "../../../domain/ProviderLimit.ts"
import {
  type LimitState,
  type PermitShares,
  sharePermits,
  toPermits,
  unusedLimit,
  wasSetBack
} from "../../rules/providerPermits.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"

/** Microseconds. */
const longestPause = Duration.toMillis(longestRetryAfter) * 1000

export const makeProviderLimits = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const ask = (provider: ProviderName, demand: PermitDemand, { horizon, reads, shared }: PermitTerms) =>
    sql.unsafe<PermitShares>(reserveNow, [
      provider,
      shared.spacing,
      shared.burst,
      reads?.spacing ?? null,
      reads?.burst ?? null,
      horizon,
      demand.submissions,
      demand.reads,
      longestPause
    ])

  const reservePermits = Effect.fn("ProviderLimits.reservePermits")(
    function*(provider: ProviderName, demand: PermitDemand, terms: PermitTerms) {
      const [first] = yield* ask(provider, demand, terms)
      if (first !== undefined) return toPermits(first, terms)
      yield* sql.unsafe(addStatement, [provider])
      const [row] = yield* ask(provider, demand, terms)
      return toPermits(row!, terms)
    },
    orUnavailable
  )

  const openPermits = Effect.fn("ProviderLimits.openPermits")(
    function*(provider: ProviderName, demand: PermitDemand, terms: PermitTerms) {
      const [row] = yield* sql.unsafe<LimitState & { readonly now: number }>(readStatement, [provider])
      if (row === undefined) return toPermits(sharePermits(unusedLimit, demand, terms, 0, longestPause), terms)
      // No worker would reserve a permit as long as none is open.
      if (wasSetBack(row, terms, row.now, longestPause)) yield* ask(provider, { submissions: 0, reads: 0 }, terms)
      return toPermits(sharePermits(row, demand, terms, row.now, longestPause), terms)
    },
    orUnavailable
  )

  const closeProvider = Effect.fn("ProviderLimits.closeProvider")((provider: ProviderName, pause: Duration.Duration) =>
    Effect.asVoid(
      orUnavailable(sql.unsafe(closeStatement, [provider, Math.min(Duration.toMillis(pause) * 1000, longestPause)]))
    )
  )

  return { reservePermits, openPermits, closeProvider }
})

const now = "floor(extract(epoch FROM clock_timestamp()) * 1000000)"

/**
 * The same rules as `sharePermits`. It changes the row if it reserves something, or if the clock was set back since the last
 * reservation. `now` is in microseconds since 1970.
 */
export const reserveStatement = (now: string) => `
  WITH old AS MATERIALIZED (
    SELECT shared_until::float8, reads_until::float8, closed_until::float8 FROM provider_limits WHERE provider = $1
    FOR UPDATE
  ), present AS MATERIALIZED (
    SELECT *, ${now}::float8 AS now FROM old
  ), opening AS (
    SELECT *, greatest(0, least(closed_until - now, $9::float8)) AS opens,
      closed_until - now > $9::float8 OR shared_until - now > $6::float8 + $3::float8 * $2::float8
        OR coalesce(reads_until - now > $6::float8 + $5::float8 * $4::float8, false) AS was_set_back
    FROM present
  ), start AS (
    SELECT now, opens, was_set_back,
      greatest(least(shared_until - now, $6::float8 + $3::float8 * $2::float8), opens) AS shared,
      CASE WHEN $4::float8 IS NULL THEN 0
        ELSE greatest(least(reads_until - now, $6::float8 + $5::float8 * $4::float8), opens) END AS reads
    FROM opening
  ), room AS (
    SELECT *,
      CASE WHEN opens > $6::float8 THEN 0
        ELSE greatest(0, floor(($6::float8 - shared) / $2::float8) + $3::float8) END AS in_shared,
      CASE WHEN $4::float8 IS NULL OR opens > $6::float8 THEN 0
        ELSE greatest(0, floor(($6::float8 - reads) / $4::float8) + $5::float8) END AS in_reads
    FROM start
  ), first AS (
    SELECT *, least($7::float8 + $8::float8, in_shared) AS both_kinds,
      mod(floor((shared + now) / $2::float8)::bigint, 2) AS turn
    FROM room
  ), second AS (
    SELECT *,
      CASE WHEN $4::float8 IS NOT NULL THEN least($7::float8, in_shared)
        ELSE both_kinds - least($8::float8, greatest(floor((both_kinds + turn) / 2), both_kinds - $7::float8))
      END AS submissions,
      CASE WHEN $4::float8 IS NULL THEN 0 ELSE least($8::float8, in_reads) END AS reads_reserved
    FROM first
  ), third AS (
    SELECT *,
      CASE WHEN $4::float8 IS NULL THEN both_kinds - submissions
        WHEN opens > 0 THEN 0
        ELSE least($8::float8 - reads_reserved,
          greatest(0, floor(-(shared + submissions * $2::float8) / $2::float8) + $3::float8)) END AS reads_shared
    FROM second
  ), reserved AS (
    UPDATE provider_limits l
    SET shared_until = now + shared + (submissions + reads_shared) * $2::float8,
      reads_until = CASE WHEN $4::float8 IS NULL THEN reads_until ELSE now + reads + reads_reserved * $4::float8 END,
      closed_until = least(closed_until, now + opens)
    FROM third WHERE l.provider = $1 AND (was_set_back OR submissions + reads_reserved + reads_shared > 0)
  )
  SELECT opens, shared, reads, submissions, reads_reserved, reads_shared FROM third`

const reserveNow = reserveStatement(now)

const addStatement = "INSERT INTO provider_limits (provider) VALUES ($1) ON CONFLICT (provider) DO NOTHING"

const readStatement = `
  SELECT shared_until::float8, reads_until::float8, closed_until::float8, ${now}::float8 AS now
  FROM provider_limits WHERE provider = $1`

const closeStatement = `
  INSERT INTO provider_limits AS l (provider, closed_until) VALUES ($1, ${now} + $2::float8)
  ON CONFLICT (provider) DO UPDATE SET closed_until = greatest(l.closed_until, excluded.closed_until)
  WHERE l.closed_until < excluded.closed_until`
