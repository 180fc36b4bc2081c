/**
 * The sessions of operators, in the memory of the process: a restart ends them all.
 * Secrets of the console have 256 random bits. The process keeps only their digests, which need no salt and no slow hash.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto"

/** Milliseconds after which a session ends. */
const maxAge = 12 * 3_600_000

/** Milliseconds without a request of the operator after which a session ends. */
const maxIdle = 3_600_000

/** Most sessions of a process. A further one ends the session that was idle for the longest time. */
export const maxSessions = 100

/** The session of an operator in one browser. */
export interface Session {
  readonly operator: string
  /** Each request that changes something must repeat it. Pages of other origins cannot read it. */
  readonly csrfToken: string
  /** When the session ends at the latest. */
  readonly expiresAt: DateTime.Utc
}

/** A session, and the secret id for the cookie of its browser. */
interface StartedSession {
  readonly id: Redacted.Redacted<string>
  readonly session: Session
}

interface Entry extends Session {
  /** SHA-256 of the id. */
  readonly digest: string
  /** Milliseconds since the epoch. */
  usedAt: number
  readonly ended: Latch.Latch
}

export class Sessions extends Context.Service<Sessions, {
  readonly start: (operator: string) => Effect.Effect<StartedSession>
  /** The session with this id, if it has not ended. With `prolongs`, its idle time starts anew. */
  readonly find: (id: string, options: { readonly prolongs: boolean }) => Effect.Effect<Session | null>
  readonly end: (session: Session) => Effect.Effect<void>
  /** Waits until the session ends: by `end`, by its age, or because it is idle. */
  readonly ended: (session: Session) => Effect.Effect<void>
}>()("financial-agents-gateway/operator/console/access/Sessions") {
  static readonly layer: Layer.Layer<Sessions> = Layer.effect(Sessions, Effect.suspend(() => make))
}

const endOf = (entry: Entry): number => Math.min(entry.expiresAt.epochMilliseconds, entry.usedAt + maxIdle)

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  /** By digest, the longest idle first. */
  const entries = new Map<string, Entry>()

  const remove = (entry: Entry) => {
    entries.delete(entry.digest)
    entry.ended.openUnsafe()
  }

  const removeEnded = () => {
    for (const entry of entries.values()) if (endOf(entry) <= now()) remove(entry)
  }

  const use = (entry: Entry) => {
    entry.usedAt = now()
    entries.delete(entry.digest)
    entries.set(entry.digest, entry)
  }

  /** The entry of a session. Null after its end. */
  const entryOf = (session: Session): Entry | null => {
    const entry = session as Entry
    return entries.get(entry.digest) === entry ? entry : null
  }

  const start = (operator: string): StartedSession => {
    removeEnded()
    const [idlest] = entries.values()
    if (entries.size >= maxSessions && idlest !== undefined) remove(idlest)
    const id = newSecret()
    const entry: Entry = {
      operator,
      csrfToken: newSecret(),
      expiresAt: DateTime.makeUnsafe(now() + maxAge),
      digest: digestOf(id),
      usedAt: now(),
      ended: Latch.makeUnsafe(false)
    }
    entries.set(entry.digest, entry)
    return { id: Redacted.make(id, { label: "session id" }), session: entry }
  }

  const find = (id: string, { prolongs }: { readonly prolongs: boolean }): Session | null => {
    removeEnded()
    const entry = entries.get(digestOf(id))
    if (entry === undefined) return null
    if (prolongs) use(entry)
    return entry
  }

  /** Requests may prolong the session meanwhile, so its end is computed again. */
  const untilTime = Effect.fnUntraced(function*(entry: Entry) {
    while (entryOf(entry) !== null) {
      const left = endOf(entry) - now()
      if (left <= 0) return remove(entry)
      yield* Effect.sleep(left)
    }
  })

  return Sessions.of({
    start: (operator) => Effect.sync(() => start(operator)),
    find: (id, options) => Effect.sync(() => find(id, options)),
    end: (session) =>
      Effect.sync(() => {
        const entry = entryOf(session)
        if (entry !== null) remove(entry)
      }),
    ended: (session) =>
      Effect.suspend(() => {
        const entry = entryOf(session)
        return entry === null ? Effect.void : Effect.raceFirst(entry.ended.await, untilTime(entry))
      })
  })
})

/** A new secret, in Base64url. */
export const newSecret = (): string => randomBytes(32).toString("base64url")

/** SHA-256 of a secret, in Base64url. */
export const digestOf = (secret: string): string => hash("sha256", secret, "base64url")

/** Compares two texts in a time that does not tell where they differ. */
export const isSameSecret = (given: string, expected: string): boolean =>
  timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", expected, "buffer"))

/** A secret for a purpose, from another one (HMAC with SHA-256). It tells nothing of the other one, nor of those for other purposes. */
export const deriveSecret = (key: string, purpose: string, text: string): string =>
  createHmac("sha256", key).update(`${purpose}\0${text}`).digest("base64url")
