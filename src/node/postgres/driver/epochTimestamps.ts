/**
 * Reads timestamps of PostgreSQL as milliseconds since the epoch. A page of 100 operations has up to 300, and a `Date` for each
 * would be a tenth of its garbage.
 *
 * `timestampCodec` in `PgTypes.ts` of @effect/sql-pg 4.0.5 makes a `Date`. `epochTimestamps.test.ts` compares both.
 */
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Result from "effect/Result"

/** The type `timestamptz` in `pg_type`. */
const timestamptz = 1184

/** PostgreSQL counts microseconds from 2000-01-01. */
const epoch = Date.UTC(2000, 0)

const infinity = { high: 0x7fffffff, low: 0xffffffff }
const minusInfinity = { high: -0x80000000, low: 0 }

/** Milliseconds since the epoch; infinite for `infinity` and `-infinity`. */
const readMillis = (bytes: Uint8Array, at: number): number => {
  const high = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
  const low = ((bytes[at + 4]! << 24) | (bytes[at + 5]! << 16) | (bytes[at + 6]! << 8) | bytes[at + 7]!) >>> 0
  if (high === infinity.high && low === infinity.low) return Number.POSITIVE_INFINITY
  if (high === minusInfinity.high && low === minusInfinity.low) return Number.NEGATIVE_INFINITY
  // 2^32 microseconds are 4,294,967 milliseconds and 296 microseconds. All microseconds in one number would not be exact.
  return high * 4_294_967 + Math.floor((high * 296 + low) / 1000) + epoch
}

/** Makes a registry for the driver. Parameters that are a `Date` stay as they are. */
export const epochTimestamps = (): PgTypes.Registry => {
  const registry = PgTypes.makeRegistry()
  registry.register<unknown>(timestamptz, {
    encode: (value) => PgTypes.encode(value, timestamptz),
    decode: (bytes) => Result.succeed(readMillis(bytes, 0)),
    read: (bytes, at) => Result.succeed(readMillis(bytes, at))
  })
  return registry
}
