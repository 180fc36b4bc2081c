/**
 * Looks up prepared statements of a session without changing a long-lived `Map` for each execution.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `PreparedCache.get` deletes and sets the entry of each statement that it finds.
 * `DriverClient.test.ts` ("would change both with the driver's own client") fails once it does not.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"

interface Prepared {
  readonly key: string
  readonly ready: boolean
}

/** The driver's cache of a session. Its types do not show it. */
interface PreparedCache {
  get: (text: string, types: ReadonlyArray<number>) => Prepared
  readonly statements: ReadonlyMap<string, Prepared>
}

interface Known {
  readonly prepared: Prepared
  readonly types: ReadonlyArray<number>
  uses: number
}

const hasCache = (session: object): session is { readonly prepared: PreparedCache } => {
  if (!("prepared" in session)) return false
  const { prepared } = session
  return typeof prepared === "object" && prepared !== null && "get" in prepared && typeof prepared.get === "function"
    && "statements" in prepared && prepared.statements instanceof Map
}

/** One in so many uses of a statement goes to the driver's cache, which evicts the least recently used. */
const usesPerLookup = 64

/** More statements than the driver keeps. */
const maxKnown = 200

const isSame = (one: ReadonlyArray<number>, other: ReadonlyArray<number>) =>
  one.length === other.length && one.every((type, index) => type === other[index])

/**
 * Keeps the driver from removing and adding the cache entry of each statement that it executes. A `Map` in the old
 * generation is then rebuilt after every few statements, and V8 keeps the tables and keys of the past until a major
 * collection. A driver without such a cache stays unchanged.
 */
export const rememberPrepared = (session: PgConnection.PgConnection): void => {
  if (!hasCache(session)) return
  const cache = session.prepared
  const lookUp = cache.get.bind(cache)
  const known = new Map<string, Known>()
  cache.get = (text, types) => {
    const found = known.get(text)
    if (
      found !== undefined && ++found.uses % usesPerLookup !== 0 && found.prepared.ready
      && cache.statements.get(found.prepared.key) === found.prepared && isSame(found.types, types)
    ) return found.prepared
    const prepared = lookUp(text, types)
    if (found === undefined || found.prepared !== prepared) {
      if (known.size === maxKnown) known.clear()
      known.set(text, { prepared, types: [...types], uses: 0 })
    }
    return prepared
  }
}
