/** Mistakes in the witness, in confirmed statements and in reads from standbys. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const witnessedClaims = "src/cluster/witness/WitnessedClaims.ts"
const witnessVerifier = "src/cluster/witness/WitnessVerifier.ts"
const verifications = "src/cluster/witness/Verifications.ts"
const fragments = "src/services/sql/queueFragments.ts"
const store = "src/cluster/witness/PostgresWitness.ts"
const replication = "migrations/0014_replication.sql"
const connection = "src/cluster/confirmReplication.ts"

export const cluster: ReadonlyArray<Plant> = [
  {
    rule: "results are always confirmed where DATABASE_SYNCHRONOUS is required",
    file: "src/cluster/PostgresCluster.ts",
    from: "mustReplicate ? Context.add(SessionResults, confirmedResults) : (ports) => ports,",
    to: "(ports) => ports,",
    tests: [unit("cluster/PostgresCluster")]
  },
  {
    rule: "a process on a cluster always watches the history of the ledger",
    file: "src/cluster/PostgresCluster.ts",
    from: "Context.make(LedgerHistory, makeHistoryGuard)",
    to: "Context.make(LedgerHistory, LedgerHistory.defaultValue())",
    tests: [unit("cluster/PostgresCluster")]
  },
  {
    rule: "a transaction that was rolled back is never told as committed",
    file: "src/node/postgres/driver/DriverClient.ts",
    from: "(result as PgConnection.Result).command === \"ROLLBACK\"",
    to: "(result as PgConnection.Result).command === \"NEVER\"",
    tests: [postgres("node/DriverClient", "never commit what an error has rolled back")]
  },
  {
    rule: "settings of a cluster are never ignored in silence",
    file: "src/node/GatewayApp.ts",
    from: "if (value === \"\" || value === \"off\") continue",
    to: "continue",
    tests: [unit("node/GatewayAppParts")]
  },
  {
    rule: "a ledger with a witness lets only workers with a witness claim",
    file: fragments,
    from: "\"h.epoch_life = ledger_life()\" : \"h.epoch IS NULL\"",
    to: "\"h.epoch_life = ledger_life()\" : \"true\"",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a worker claims only in the life that was compared with the witness",
    file: fragments,
    from: "\"h.epoch_life = ledger_life()\" : \"h.epoch IS NULL\"",
    to: "\"h.epoch IS NOT NULL\" : \"h.epoch IS NULL\"",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "the batch of a claim is always counted in the transaction of the claim",
    file: fragments,
    from: "DO UPDATE SET batch = b.batch + 1, updated_at = now()",
    to: "DO UPDATE SET batch = b.batch, updated_at = now()",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a claim that the witness refused is never sent",
    file: witnessedClaims,
    from: "if (isRecorded._tag === \"Success\" && isRecorded.success) return null",
    to: "if (isRecorded._tag === \"Success\") return null",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "a claim without an answer of the witness is never sent",
    file: witnessedClaims,
    from: "if (isRecorded._tag === \"Success\" && isRecorded.success) return null",
    to: "if (isRecorded._tag === \"Failure\" || isRecorded.success) return null",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "a claim without a batch is never sent where there is a witness",
    file: witnessedClaims,
    from: "if (batches.delete(undefined)) refused.set(undefined, \"the claim has no batch for the witness\")",
    to: "batches.delete(undefined)",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "after a failure of the witness the next batches have another key",
    file: witnessedClaims,
    from: "      worker = crypto.randomUUID()\n      if (isSuspect) return Effect.void\n",
    to: "      if (isSuspect) return Effect.void\n",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "a worker claims again only once ledger and witness agree",
    file: witnessedClaims,
    from: "if (!isCurrent || (yield* withinWitness(store.epoch)) !== epoch) return false",
    to: "if (!isCurrent) return false",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "of the batches of one key only the last one is recorded",
    file: witnessedClaims,
    from: "if ((last.get(key)?.batch ?? -Infinity) < batch.batch) last.set(key, batch)",
    to: "last.set(key, batch)",
    tests: [unit("cluster/WitnessedClaims")]
  },
  {
    rule: "operations are released only after the witness recorded the checkpoint",
    file: witnessVerifier,
    from: "    if (!(yield* recordCheckpoint(checkpointOf(epoch, life)))) return\n",
    to: "    yield* recordCheckpoint(checkpointOf(epoch, life))\n",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "the witness is always fenced before its batches are read",
    file: witnessVerifier,
    from:
      "    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n    const batches = yield* withinWitness(store.batches(epoch))\n",
    to:
      "    const batches = yield* withinWitness(store.batches(present ?? epoch))\n    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "a lost fence never leads to a comparison",
    file: witnessVerifier,
    from: "    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n",
    to: "    yield* withinWitness(store.fence(present, epoch))\n",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "a history that lost claims never records its checkpoint",
    file: witnessVerifier,
    from: "if (result !== \"missing\" && result !== \"proven\") yield*",
    to: "if (result !== \"proven\") yield*",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "the ledger forgets batches only after the witness forgot them",
    file: witnessVerifier,
    from: "if (yield* withinWitness(store.compact(checkpointOf(epoch, state.life)))) yield* forgetBatches(epoch)",
    to: "yield* Effect.andThen(forgetBatches(epoch), withinWitness(store.compact(checkpointOf(epoch, state.life))))",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "a verifier waits before it fences an epoch that the ledger lacks",
    file: witnessVerifier,
    from: "    if (yield* mustWait(present, state)) return\n",
    to: "",
    tests: [unit("cluster/WitnessVerifier")]
  },
  {
    rule: "a missing batch always holds the ledger",
    file: verifications,
    from: "WHERE b.batch IS NULL OR b.batch < w.batch",
    to: "WHERE b.batch < w.batch",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "only the verifier of the present epoch compares",
    file: verifications,
    from: "WHERE h.epoch IS NOT DISTINCT FROM $1::uuid AND ledger_life() = $2",
    to: "WHERE ledger_life() = $2",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a proof releases only what the timeline alone holds",
    file: verifications,
    from:
      "WHERE o.state = 'accepted' AND NOT o.hold_placed AND o.timeline < (SELECT ledger_timeline()) AND NOT o.acknowledged",
    to: "WHERE o.state = 'accepted' AND o.timeline < (SELECT ledger_timeline()) AND NOT o.acknowledged",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a proof releases only once",
    file: verifications,
    from: "  WHERE is_release_due AND epoch = $1::uuid",
    to: "  WHERE epoch = $1::uuid",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "a comparison that proves nothing keeps what a failover held",
    file: verifications,
    from: "if (result === \"begun\" || result === \"unsettled\") yield* sql.unsafe(keepHeldStatement)",
    to: "if (result === \"begun\") yield* sql.unsafe(keepHeldStatement)",
    tests: [postgres("cluster/Verifications")]
  },
  {
    rule: "the witness records only batches of its present epoch",
    file: store,
    from: "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE epoch = $1::uuid FOR SHARE) e)",
    to: "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE epoch = $1::uuid) e)",
    tests: [long("cluster/WitnessStores", "records a batch only after a fence that is under way")]
  },
  {
    rule: "a batch in the witness never goes back",
    file: store,
    from: "  WHERE b.batch < excluded.batch RETURNING 1`",
    to: "  RETURNING 1`",
    tests: [long("cluster/WitnessStores", "takes only later batches of the present epoch")]
  },
  {
    rule: "only the holder of the epoch fences the witness",
    file: store,
    from: "WHERE epoch = $2::uuid RETURNING 1\", [to, from]",
    to: "WHERE epoch <> $1::uuid AND $2::uuid IS NOT NULL RETURNING 1\", [to, from]",
    tests: [long("cluster/WitnessStores", "takes only later batches of the present epoch")]
  },
  {
    rule: "a cluster is never its own witness",
    file: store,
    from: "if (cluster === (yield* ledgerCluster)) {",
    to: "if (in_recovery && cluster === (yield* ledgerCluster)) {",
    tests: [long("cluster/WitnessStores", "refuses the cluster of the ledger")]
  },
  {
    rule: "a statement is confirmed only if every named standby has it",
    file: replication,
    from: "  ELSIF coalesce(parts[1]::integer, 1) <> wanted THEN",
    to: "  ELSIF coalesce(parts[1]::integer, 1) > wanted THEN",
    tests: [long("cluster/ConfirmedStatements", "needs every standby by its name")]
  },
  {
    rule: "a standby that only receives confirms nothing",
    file: replication,
    from: "WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= p_position",
    to: "WHERE sync_state IN ('sync', 'quorum')",
    tests: [long("cluster/ConfirmedStatements", "asks for the position of the standby")]
  },
  {
    rule: "a failed COMMIT always ends its transaction",
    file: connection,
    from: "        if (text === \"COMMIT\") isInTransaction = false\n        // An error without",
    to: "        // An error without",
    tests: [unit("cluster/confirmedConnection")]
  },
  {
    rule: "an error of the server is told only after its confirmation",
    file: connection,
    from: "return sqlState(error) === \"\" ? Effect.void : confirmOutside",
    to: "return Effect.void",
    tests: [unit("cluster/confirmedConnection")]
  },
  {
    rule: "a result within a transaction is confirmed with its COMMIT",
    file: connection,
    from: "else if (text === \"COMMIT\" || text === \"ROLLBACK\") isInTransaction = false",
    to: "else if (text === \"ROLLBACK\") isInTransaction = false",
    tests: [unit("cluster/confirmedConnection")]
  },
  {
    rule: "a read of a standby is told only after its primary is confirmed",
    file: "src/cluster/standbys/StandbyReads.ts",
    from: "Effect.tap(Effect.flatMap(primary.ask, read), () => primary.confirm)",
    to: "Effect.flatMap(Effect.tap(primary.ask, () => primary.confirm), read)",
    tests: [unit("cluster/ReadIndex")]
  },
  {
    rule: "a standby serves a read only with the mark of the timeline",
    file: "src/cluster/standbys/StandbyReads.ts",
    from: "(isHere) => isHere ? positionReached : Effect.succeed(false)",
    to: "() => positionReached",
    tests: [long("cluster/StandbyReads", "of an earlier primary serves no read of its successor")]
  },
  {
    rule: "a shared question never begins before its call",
    file: "src/submission/gatherCalls.ts",
    from:
      "      const calls = waiting.slice(0, count)\n      waiting = waiting.slice(count)\n      yield* run(calls)\n",
    to: "      const calls = waiting\n      yield* run(calls)\n      waiting = waiting.slice(count)\n",
    tests: [unit("cluster/ReadIndex"), unit("cluster/confirmReplication")]
  }
]
