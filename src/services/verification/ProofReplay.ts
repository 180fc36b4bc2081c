/** Detects the replay of DPoP proofs: each is valid for one request (RFC 9449 §11.1). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { DpopProofUse } from "../../oauth/DpopProof.ts"
import { orUnavailable, storeFailure, type StoreUnavailable } from "../StoreUnavailable.ts"

/** Most rows that one statement deletes, so that it stays short. */
const batch = 1000
const interval = Duration.seconds(30)

/** How long an expired DPoP proof is kept: the clock that deletes it may be ahead of the clock that accepts it. */
const slack = Duration.seconds(60)

/**
 * Remembers the uses of DPoP proofs until they expire. After `StoreUnavailable` it is unknown whether a DPoP proof was
 * remembered, and the client must create another one.
 */
export class ProofReplay extends Context.Service<ProofReplay, {
  /** Remembers the use. True if it is the first: of all concurrent calls in all processes, exactly one yields true. */
  readonly remember: (use: DpopProofUse) => Effect.Effect<boolean, StoreUnavailable>
}>()("financial-agents-gateway/services/verification/ProofReplay") {
  /**
   * Stores the uses in the database, for all processes. Until its scope closes, it deletes expired rows about every 30
   * seconds, so that the table contains a few minutes. It needs a session that may write.
   */
  static readonly layer: Layer.Layer<ProofReplay, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    ProofReplay,
    Effect.suspend(() => makeSql)
  )

  /** Keeps the uses in memory, for a gateway of one process. They are lost when it ends. */
  static readonly layerMemory: Layer.Layer<ProofReplay> = Layer.effect(ProofReplay, Effect.suspend(() => makeMemory))
}

/** Repeats a sweep, at random intervals of 24 to 36 seconds: processes that start together do not sweep together. */
const sweepForever = (sweep: Effect.Effect<number, StoreUnavailable>): Effect.Effect<void, never, Scope.Scope> => {
  const sweepAll = Effect.gen(function*() {
    while ((yield* sweep) === batch);
  }).pipe(
    // The next sweep may succeed. The log names a defect without its message, which may contain secrets.
    Effect.catchCause((cause) => {
      const error = Cause.squash(cause)
      return Effect.annotateLogs(Effect.logWarning("Could not delete expired DPoP proofs"), {
        cause: storeFailure(error) ?? (error instanceof Error ? error.name : typeof error)
      })
    })
  )
  return Effect.asVoid(Effect.forkScoped(Effect.schedule(sweepAll, Schedule.jittered(Schedule.spaced(interval)))))
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

/**
 * If two processes sweep at once, one of them deletes nothing. There is no advisory lock, because every role could take it
 * and stop all sweeps.
 */
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
