/** Mistakes in the witness, in confirmed statements, in reads from standbys and at a host that is gone. */
import { long, type Plant, plant, postgres, unit } from "../Plant.ts"

const witnessedClaims = "src/cluster/witness/WitnessedClaims.ts"
const witnessVerifier = "src/cluster/witness/WitnessVerifier.ts"
const verifications = "src/cluster/witness/Verifications.ts"
const fragments = "src/services/sql/queueFragments.ts"
const store = "src/cluster/witness/PostgresWitness.ts"
const replication = "migrations/0014_replication.sql"
const connection = "src/cluster/confirmReplication.ts"
const sessions = "src/node/postgres/driver/sharedSessions.ts"

export const cluster: ReadonlyArray<Plant> = [
  plant("results are always confirmed where DATABASE_SYNCHRONOUS is required", "src/cluster/PostgresCluster.ts")
    .edit("mustReplicate ? Context.add(SessionResults, confirmedResults) : (ports) => ports,", "(ports) => ports,")
    .foundBy(unit("cluster/PostgresCluster")),
  plant("a process on a cluster always watches the history of the ledger", "src/cluster/PostgresCluster.ts")
    .edit("Context.make(LedgerHistory, makeHistoryGuard)", "Context.make(LedgerHistory, LedgerHistory.defaultValue())")
    .foundBy(unit("cluster/PostgresCluster")),
  plant("a transaction that was rolled back is never told as committed", "src/node/postgres/driver/DriverClient.ts")
    .edit(
      "(result as PgConnection.Result).command === \"ROLLBACK\"",
      "(result as PgConnection.Result).command === \"NEVER\""
    )
    .foundBy(postgres("node/postgres/driver/DriverClient", "never commit what an error has rolled back")),
  plant("a transaction on a host that is gone ends, and frees its connection", sessions)
    .edit(
      "session.pipelineInFlight[session.pipelineHead] ?? session.consumer",
      "session.pipelineInFlight[session.pipelineHead]"
    )
    .foundBy(postgres("node/postgres/driver/closeSilent", "answers no statement of a transaction")),
  plant("a refusal whose rollback was lost is no mistake of the program", "src/services/StoreUnavailable.ts")
    .edit("Predicate.hasProperty(defect, \"_tag\")", "defect instanceof StoreUnavailable")
    .foundBy(postgres("node/postgres/driver/closeSilent", "answers no statement of a transaction")),
  plant("a transaction without a timeout may take as long as it needs", sessions)
    .edit("startsWith(\"SET LOCAL statement_timeout\")", "startsWith(\"SET GLOBAL statement_timeout\")")
    .foundBy(postgres("node/postgres/driver/closeSilent", "that set its own statement_timeout is slow")),
  plant("a connection is watched again after a transaction without a timeout", sessions)
    .edit("      seen.isLimited = true\n", "")
    .foundBy(postgres("node/postgres/driver/closeSilent", "that set its own statement_timeout is slow")),
  plant("a claim may wait for a standby for longer than its statement may run", sessions)
    .edit("isUnanswered && seen.isLimited", "isUnanswered")
    .foundBy(postgres("node/postgres/driver/closeSilent", "its commit may wait for a standby")),
  plant("settings of a cluster are never ignored in silence", "src/node/GatewayApp.ts")
    .edit("if (value === \"\" || value === \"off\") continue", "continue")
    .foundBy(unit("node/GatewayAppParts")),
  plant("the password of a witness leaves this machine with TLS alone", "src/cluster/witness/WitnessSetting.ts")
    .edit("if (address.user !== null && secure !== \"s\" && isRemote) {", "if (hosts === \"\") {")
    .foundBy(unit("cluster/witness/witnessUrl")),
  plant("a ledger with a witness lets only workers with a witness claim", fragments)
    .edit("\"h.epoch_life = ledger_life()\" : \"h.epoch IS NULL\"", "\"h.epoch_life = ledger_life()\" : \"true\"")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a worker claims only in the life that was compared with the witness", fragments)
    .edit("\"h.epoch_life = ledger_life()\" : \"h.epoch IS NULL\"", "\"h.epoch IS NOT NULL\" : \"h.epoch IS NULL\"")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("the batch of a claim is always counted in the transaction of the claim", fragments)
    .edit("DO UPDATE SET batch = b.batch + 1, updated_at = now()", "DO UPDATE SET batch = b.batch, updated_at = now()")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a claim that the witness refused is never sent", witnessedClaims)
    .edit(
      "if (isRecorded._tag === \"Success\" && isRecorded.success) return null",
      "if (isRecorded._tag === \"Success\") return null"
    )
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("a claim without an answer of the witness is never sent", witnessedClaims)
    .edit(
      "if (isRecorded._tag === \"Success\" && isRecorded.success) return null",
      "if (isRecorded._tag === \"Failure\" || isRecorded.success) return null"
    )
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("a claim without a batch is never sent where there is a witness", witnessedClaims)
    .edit("        refused.set(undefined, \"the claim has no batch for the witness\")\n", "")
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("after a failure of the witness the next batches have another key", witnessedClaims)
    .edit(
      "      worker = crypto.randomUUID()\n      if (isSuspect) return Effect.void\n",
      "      if (isSuspect) return Effect.void\n"
    )
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("a worker claims again only once ledger and witness agree", witnessedClaims)
    .edit(
      "if (!isCurrent || (yield* withinWitness(store.epoch)) !== epoch) return false",
      "if (!isCurrent) return false"
    )
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("of the batches of one key only the last one is recorded", witnessedClaims)
    .edit("batch.batch > last.batch ? batch : last", "batch.batch < last.batch ? batch : last")
    .foundBy(unit("cluster/witness/WitnessedClaims")),
  plant("operations are released only after the witness recorded the checkpoint", witnessVerifier)
    .edit(
      "    if (!(yield* recordCheckpoint(checkpointOf(epoch, life)))) return\n",
      "    yield* recordCheckpoint(checkpointOf(epoch, life))\n"
    )
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("the witness is always fenced before its batches are read", witnessVerifier)
    .edit(
      "    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n    const batches = yield* withinWitness(store.batches(epoch))\n",
      "    const batches = yield* withinWitness(store.batches(present ?? epoch))\n    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n"
    )
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("a lost fence never leads to a comparison", witnessVerifier)
    .edit(
      "    if (!(yield* withinWitness(store.fence(present, epoch)))) return\n",
      "    yield* withinWitness(store.fence(present, epoch))\n"
    )
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("a history that lost claims never records its checkpoint", witnessVerifier)
    .edit("if (result !== \"missing\" && result !== \"proven\") yield*", "if (result !== \"proven\") yield*")
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("the ledger forgets batches only after the witness forgot them", witnessVerifier)
    .edit(
      "if (yield* withinWitness(store.compact(checkpointOf(epoch, state.life)))) yield* forgetBatches(epoch)",
      "yield* Effect.andThen(forgetBatches(epoch), withinWitness(store.compact(checkpointOf(epoch, state.life))))"
    )
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("a verifier waits before it fences an epoch that the ledger lacks", witnessVerifier)
    .edit("    if (yield* mustWait(present, state)) return\n", "")
    .foundBy(unit("cluster/witness/WitnessVerifier")),
  plant("a missing batch always holds the ledger", verifications)
    .edit("WHERE b.batch IS NULL OR b.batch < w.batch", "WHERE b.batch < w.batch")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("only the verifier of the present epoch compares", verifications)
    .edit("WHERE h.epoch IS NOT DISTINCT FROM $1::uuid AND ledger_life() = $2", "WHERE ledger_life() = $2")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a proof releases only what the timeline alone holds", verifications)
    .edit(
      "WHERE o.state = 'accepted' AND NOT o.hold_placed AND o.timeline < (SELECT ledger_timeline()) AND NOT o.acknowledged",
      "WHERE o.state = 'accepted' AND o.timeline < (SELECT ledger_timeline()) AND NOT o.acknowledged"
    )
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a proof releases only once", verifications)
    .edit("  WHERE is_release_due AND epoch = $1::uuid", "  WHERE epoch = $1::uuid")
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("a comparison that proves nothing keeps what a failover held", verifications)
    .edit(
      "if (result === \"begun\" || result === \"unsettled\") yield* sql.unsafe(keepHeldStatement)",
      "if (result === \"begun\") yield* sql.unsafe(keepHeldStatement)"
    )
    .foundBy(postgres("cluster/witness/Verifications")),
  plant("the witness records only batches of its present epoch", store)
    .edit(
      "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE epoch = $1::uuid FOR SHARE) e)",
      "EXISTS (SELECT FROM (SELECT FROM witness_epoch WHERE epoch = $1::uuid) e)"
    )
    .foundBy(long("cluster/WitnessStores", "records a batch only after a fence that is under way")),
  plant("a batch in the witness never goes back", store)
    .edit("  WHERE b.batch < excluded.batch RETURNING 1`", "  RETURNING 1`")
    .foundBy(long("cluster/WitnessStores", "takes only later batches of the present epoch")),
  plant("only the holder of the epoch fences the witness", store)
    .edit(
      "WHERE epoch = $2::uuid RETURNING 1\", [to, from]",
      "WHERE epoch <> $1::uuid AND $2::uuid IS NOT NULL RETURNING 1\", [to, from]"
    )
    .foundBy(long("cluster/WitnessStores", "takes only later batches of the present epoch")),
  plant("a cluster is never its own witness", store)
    .edit("if (cluster === (yield* ledgerCluster)) {", "if (in_recovery && cluster === (yield* ledgerCluster)) {")
    .foundBy(long("cluster/WitnessStores", "refuses the cluster of the ledger")),
  plant("a statement is confirmed only if every named standby has it", replication)
    .edit(
      "  ELSIF coalesce(parts[1]::integer, 1) <> wanted THEN",
      "  ELSIF coalesce(parts[1]::integer, 1) > wanted THEN"
    )
    .foundBy(long("cluster/ConfirmedStatements", "needs every standby by its name")),
  plant("a standby that only receives confirms nothing", replication)
    .edit(
      "WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= p_position",
      "WHERE sync_state IN ('sync', 'quorum')"
    )
    .foundBy(long("cluster/ConfirmedStatements", "asks for the position of the standby")),
  plant("a failed COMMIT always ends its transaction", connection)
    .edit(
      "        if (text === \"COMMIT\") isInTransaction = false\n        // An error without",
      "        // An error without"
    )
    .foundBy(unit("cluster/confirmedConnection")),
  plant("an error of the server is told only after its confirmation", connection)
    .edit("return sqlState(error) === \"\" ? Effect.void : confirmOutside", "return Effect.void")
    .foundBy(unit("cluster/confirmedConnection")),
  plant("a result within a transaction is confirmed with its COMMIT", connection)
    .edit(
      "else if (text === \"COMMIT\" || text === \"ROLLBACK\") isInTransaction = false",
      "else if (text === \"ROLLBACK\") isInTransaction = false"
    )
    .foundBy(unit("cluster/confirmedConnection")),
  plant("a read of a standby is told only after its primary is confirmed", "src/cluster/standbys/StandbyReads.ts")
    .edit(
      "Effect.tap(Effect.flatMap(primary.ask, read), () => primary.confirm)",
      "Effect.flatMap(Effect.tap(primary.ask, () => primary.confirm), read)"
    )
    .foundBy(unit("cluster/standbys/ReadIndex")),
  plant("a standby serves a read only with the mark of the timeline", "src/cluster/standbys/StandbyReads.ts")
    .edit("(isHere) => isHere ? positionReached : Effect.succeed(false)", "() => positionReached")
    .foundBy(long("cluster/StandbyReads", "of an earlier primary serves no read of its successor")),
  plant("a shared question never begins before its call", "src/submission/gatherCalls.ts")
    .edit(
      "      const calls = waiting.slice(0, count)\n      waiting = waiting.slice(count)\n      yield* run(calls)\n",
      "      const calls = waiting\n      yield* run(calls)\n      waiting = waiting.slice(count)\n"
    )
    .foundBy(unit("cluster/standbys/ReadIndex"), unit("cluster/confirmReplication")),
  plant("a ledger settles only in the life that was compared with its witness", verifications)
    .edit("h.epoch_life = ledger_life() AND NOT h.is_witness_settled", "NOT h.is_witness_settled")
    .foundBy(postgres("cluster/witness/Verifications", "settles a minute after")),
  plant("the number of a batch never goes back in the ledger", verifications)
    .edit("SET batch = greatest(b.batch, excluded.batch), updated_at", "SET batch = excluded.batch, updated_at")
    .foundBy(postgres("cluster/witness/Verifications", "never counts a batch back")),
  plant("the ledger forgets no batch that a claim has counted within the hour", verifications)
    .edit("b.updated_at < h.epoch_at - interval '1 hour'", "b.updated_at < h.epoch_at + interval '1 hour'")
    .foundBy(postgres("cluster/witness/Verifications", "never counts a batch back")),
  plant("a ledger that holds its operations gives a server that was replaced time to end", witnessVerifier)
    .edit("hasHeld = result === \"missing\" || result === \"unprovable\"", "hasHeld = result === \"missing\"")
    .foundBy(unit("cluster/witness/WitnessVerifier", "is followed by one of another epoch after")),
  plant("more than a thousand batches end their epoch", witnessVerifier)
    .edit("batches.filter((batch) => batch.epoch === epoch).length > mostBatches", "batches.length > Infinity")
    .foundBy(unit("cluster/witness/WitnessVerifier", "end their epoch once"))
]
