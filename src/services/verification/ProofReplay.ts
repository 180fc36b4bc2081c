/**
 * DPoP proofs that were shown before: each is good for one request (RFC 9449 §11.1).
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { orUnavailable, storeFailure, type StoreUnavailable } from "../StoreUnavailable.ts"

/** What identifies a proof, whose signature was verified. */
export interface DpopProofUse {
  /** SHA-256 thumbprint of its key (RFC 7638). */
  readonly jkt: string
  /** The name that its maker gave it, unique for that key. */
  readonly jti: string
  /** From when on it is refused for its age, whoever shows it. */
  readonly expires_at: DateTime.Utc
}

/** Rows of one statement, so that none takes long. */
const batch = 1000
const interval = Duration.seconds(30)

/** For how long an expired proof is kept: the clock that expired it is not the one that accepts it. */
const slack = Duration.seconds(60)

/**
 * Remembers proofs until they are too old to be accepted anyway. After `StoreUnavailable` nobody knows whether a proof was
 * remembered: the client makes another one.
 */
export class ProofReplay extends Context.Service<ProofReplay, {
  /** Whether the proof is shown for the first time. Of any number of calls at once, in any process, one yields true. */
  readonly remember: (proof: DpopProofUse) => Effect.Effect<boolean, StoreUnavailable>
}>()("financial-agents-gateway/services/verification/ProofReplay") {
  /**
   * Shared by all processes on the database. Every 30 seconds or so it deletes what expired, until its scope closes, so
   * that the table holds the proofs of a few minutes. It needs a session that may write.
   */
  static readonly layer: Layer.Layer<ProofReplay, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    ProofReplay,
    Effect.suspend(() => makeSql)
  )

  /** For a gateway that is one process: what it remembers ends with it. */
  static readonly layerMemory: Layer.Layer<ProofReplay> = Layer.effect(ProofReplay, Effect.suspend(() => makeMemory))
}

/** Runs a sweep from time to time. Not all processes at once, though they were started together. */
const sweepForever = (sweep: Effect.Effect<number, StoreUnavailable>): Effect.Effect<void, never, Scope.Scope> => {
  const sweepAll = Effect.gen(function*() {
    while ((yield* sweep) === batch);
  }).pipe(
    // Whatever it was, the next one may go well. A defect is named and not quoted: its message may hold anything.
    Effect.catchCause((cause) => {
      const error = Cause.squash(cause)
      return Effect.annotateLogs(Effect.logWarning("Could not delete expired DPoP proofs"), {
        cause: storeFailure(error) ?? (error instanceof Error ? error.name : typeof error)
      })
    })
  )
  const pause = Effect.flatMap(
    Random.nextBetween(0.8, 1.2),
    (share) => Effect.sleep(Duration.times(interval, share))
  )
  return Effect.asVoid(Effect.forkScoped(Effect.forever(Effect.andThen(pause, sweepAll))))
}

// --- PostgreSQL

const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const digests = yield* Digest.Digest
  const encoder = new TextEncoder()
  yield* sweepForever(
    Effect.map(orUnavailable(sql.unsafe(sweepStatement, [Duration.toSeconds(slack)])), (rows) => rows.length)
  )
  return ProofReplay.of({
    remember: ({ expires_at, jkt, jti }) =>
      Effect.flatMap(
        digests.digestHex(Digest.sha256, encoder.encode(`${jkt.length}:${jkt}${jti}`)),
        (digest) =>
          Effect.map(
            orUnavailable(sql.unsafe(rememberStatement, [digest, DateTime.toDateUtc(expires_at)])),
            (rows) => rows.length === 1
          )
      )
  })
})

const rememberStatement = `
  INSERT INTO dpop_proofs (digest, expires_at) VALUES (decode($1, 'hex'), $2) ON CONFLICT DO NOTHING RETURNING true`

/** Of two processes that sweep at once, one finds the rows gone. An advisory lock would let any role stop all sweeps. */
const sweepStatement = `
  DELETE FROM dpop_proofs WHERE digest = ANY (ARRAY(
    SELECT digest FROM dpop_proofs
    WHERE expires_at < now() - make_interval(secs => $1)
    ORDER BY expires_at LIMIT ${batch}
  ))
  RETURNING true`

// --- memory

const makeMemory = Effect.gen(function*() {
  const seen = new Map<string, number>()
  yield* sweepForever(Effect.map(Clock.currentTimeMillis, (now) => {
    for (const [proof, expires] of seen) {
      if (expires < now - Duration.toMillis(slack)) seen.delete(proof)
    }
    return 0
  }))
  return ProofReplay.of({
    remember: ({ expires_at, jkt, jti }) =>
      Effect.sync(() => {
        const proof = JSON.stringify([jkt, jti])
        if (seen.has(proof)) return false
        seen.set(proof, expires_at.epochMilliseconds)
        return true
      })
  })
})
