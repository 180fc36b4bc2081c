import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as fs from "node:fs"
import { IdempotencyKey } from "../../src/domain/Binding.ts"
import { bearer } from "../../src/domain/Credential.ts"
import {
  ClientId,
  ExternalId,
  type GrantIdentity,
  Issuer,
  operationsRead,
  PairwiseSubject,
  Provider,
  ResourceOwner
} from "../../src/domain/Grant.ts"
import { Grants } from "../../src/services/Grants.ts"
import { GrantVerifier } from "../../src/services/GrantVerifier.ts"
import { migrate } from "../../src/services/Migrations.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { OperationStore } from "../../src/services/OperationStore.ts"
import { ProofReplay } from "../../src/services/ProofReplay.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { claimTerms, readTerms, recording, reference } from "../fixtures/Queue.ts"
import { createDatabase, layerFor, Platform } from "../fixtures/TestDatabase.ts"

/** Blocks of GRANT statements in the documentation, in its order: what everybody needs, and what comes on top. */
type Privileges = "base" | "proofs" | "first sight"
const blocks: ReadonlyArray<Privileges> = ["base", "proofs", "first sight"]

/** The GRANT statements of the documentation, for roles whose names no other test file uses. */
const documented = (suffix: string, wanted: ReadonlyArray<Privileges>) => {
  const written = [...fs.readFileSync("docs/postgresql.md", "utf8").matchAll(/```sql\n(.*?)```/gs)]
    .map(([, text]) => text!)
    .filter((text) => /^GRANT /m.test(text))
  assert.lengthOf(written, blocks.length)
  return written.filter((_, n) => wanted.includes(blocks[n]!))
    .flatMap((text) => text.match(/^GRANT [^;]+;$/gm) ?? [])
    .map((statement) => statement.replaceAll(/gateway_(reader|writer)/g, `gateway_$1_${suffix}`))
}

/** Two roles with the documented privileges, and how to connect as them. They are dropped with the scope. */
const rolesWith = Effect.fnUntraced(function*(...privileges: ReadonlyArray<Privileges>) {
  const database = yield* createDatabase()
  const [reader, writer] = [`gateway_reader_${database}`, `gateway_writer_${database}`]
  const asOwner = (statements: ReadonlyArray<string>) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement).unprepared, { discard: true })
    ).pipe(
      Effect.provide(Layer.fresh(layerFor(database))),
      Effect.orDie
    )
  yield* Effect.acquireRelease(
    asOwner([`CREATE ROLE ${reader}`, `CREATE ROLE ${writer}`, ...documented(database, ["base", ...privileges])]),
    () => asOwner([`DROP OWNED BY ${reader}, ${writer}`, `DROP ROLE ${reader}, ${writer}`])
  )
  const as = (role: string, settings = {}) =>
    Layer.fresh(layerFor(database, { startupParameters: { role, ...settings } }))
  return {
    reader: as(reader, { default_transaction_read_only: "on" }),
    readerThatMayTryToWrite: as(reader),
    writer: as(writer)
  }
})

const request = {
  resource_owner: ResourceOwner.make("owner"),
  subject: PairwiseSubject.make("subject"),
  client_id: ClientId.make("client"),
  provider: Provider.make("bank"),
  scopes: [operationsRead],
  expires_in: Duration.hours(1)
}

const registration = {
  ...request,
  issuer: Issuer.make("https://as.example"),
  grant: ExternalId.make("grant"),
  client_id: ClientId.make("their-client"),
  expires_at: DateTime.makeUnsafe("2100-01-01T00:00:00Z")
}

/** What neither role may do, whatever it was given beyond the base. */
const denied = (statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.flip(sql.unsafe(statement).unprepared)).pipe(
    Effect.map(({ reason }) => assert.include(["AuthorizationError", "SqlSyntaxError"], reason._tag, statement))
  )

/** Everything that workers and operators do, to the end of each operation, which erases its payload. */
const submit = Effect.fnUntraced(function*(identity: GrantIdentity) {
  const ledger = yield* OperationLedger
  const queue = yield* SubmissionQueue
  const sql = yield* SqlClient.SqlClient
  const { provider } = request
  const acceptNext = (key: string) =>
    ledger.accept(identity, { type: "payment", key: IdempotencyKey.make(key), payload: key })
  assert.deepStrictEqual(yield* queue.prepare, { moved: false })
  yield* acceptNext("sent")
  const [claim] = yield* queue.claim(provider, 1, claimTerms)
  const { id } = claim!.operation
  assert.strictEqual(yield* claim!.payload, "sent")
  yield* queue.record(
    id,
    2,
    { state: "submitted" },
    recording({ reference: reference("theirs"), due_in: Duration.zero })
  )
  assert.lengthOf(yield* queue.takeReads(provider, 1, readTerms), 1)
  yield* queue.postpone(id, 3, { due_in: Duration.zero, reference: null })
  yield* queue.record(id, 3, { state: "succeeded" }, recording())
  yield* queue.rescue(10)

  const { operation: held } = yield* acceptNext("held")
  const { operation: released } = yield* acceptNext("released")
  yield* sql`UPDATE ledger_home SET system_identifier = system_identifier - 1`
  assert.deepStrictEqual(yield* queue.prepare, { moved: true })
  assert.lengthOf(yield* queue.takeHeld(provider, 10, readTerms), 2)
  yield* queue.recordHeld(held.id, 1, { state: "succeeded" }, recording())
  assert.strictEqual((yield* Effect.flip(queue.release(released.id)))._tag, "StillHeld")
  yield* queue.report(released.id, null)
  assert.strictEqual(yield* queue.releaseAll, 1)
  yield* ledger.review(released.id, true)
  yield* ledger.cancel(released.id, null)
  for (const settled of [id, held.id, released.id]) {
    assert.isEmpty(yield* sql`SELECT 1 FROM operation_payloads WHERE operation_id = ${settled}`)
  }
})

describe("The documented roles", () => {
  it.live("writer and reader can do their work", () =>
    Effect.gen(function*() {
      const { reader, writer } = yield* rolesWith()
      const { id, token } = yield* Effect.gen(function*() {
        const grants = yield* Grants
        const ledger = yield* OperationLedger
        const { access_token, grant } = yield* grants.issue(request)
        const identity = { grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }
        const payment = { type: "payment", key: IdempotencyKey.make("k"), payload: { amount: 1 } }
        const { operation } = yield* ledger.accept(identity, payment)
        yield* ledger.accept(identity, payment)
        yield* ledger.transition(operation.id, 1, { state: "submitting" }, { by: "test" })
        yield* ledger.history(operation.id)
        yield* submit(identity)
        yield* grants.register(registration)
        yield* grants.register({ ...registration, scopes: [] })
        for (let times = 0; times < 2; times++) {
          yield* grants.revokeExternal(registration)
          yield* grants.revokeSubject(registration)
          yield* grants.revokeClient(registration)
          yield* grants.revokeClient({ client_id: registration.client_id })
        }
        yield* grants.setClientActive(grant.client_id, true)
        yield* grants.setProviderConnected(grant.provider_binding_id, true)
        return { id: operation.id, token: access_token, grant }
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Grants.layer, OperationLedger.layer, SubmissionQueue.layer).pipe(Layer.provideMerge(writer))
        )
      )

      yield* Effect.gen(function*() {
        yield* (yield* Readiness).check
        const identity = yield* (yield* GrantVerifier).verify(bearer(token))
        const store = yield* OperationStore
        assert.strictEqual((yield* store.find(identity, id)).state, "submitting")
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Readiness.layer, GrantVerifier.layer, OperationStore.layer).pipe(Layer.provide(reader))
        )
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("neither can delete, truncate, switch off a rule or read what is not its business", () =>
    Effect.gen(function*() {
      const { readerThatMayTryToWrite, writer } = yield* rolesWith()
      const forbidden = [
        "DELETE FROM operations",
        "DELETE FROM operation_payloads",
        "UPDATE operation_payloads SET payload = 'x'",
        "TRUNCATE operation_payloads",
        "UPDATE operations SET provider = 'other'",
        "INSERT INTO ledger_home (system_identifier) VALUES (1)",
        "TRUNCATE operation_history",
        "UPDATE operations SET resource_owner = 'thief'",
        "UPDATE operation_history SET evidence = NULL",
        "ALTER TABLE operations DISABLE TRIGGER ALL",
        "INSERT INTO operation_history SELECT * FROM operation_history",
        "UPDATE access_tokens SET grant_id = grant_id",
        "UPDATE grants SET issuer = NULL, external_id = NULL",
        "DELETE FROM grant_revocations",
        "UPDATE grant_revocations SET client_id = 'other'",
        "UPDATE dpop_proofs SET expires_at = now()",
        "TRUNCATE dpop_proofs",
        "SET session_replication_role = replica"
      ]
      yield* Effect.provide(Effect.forEach(forbidden, denied), writer)
      // A trigger function that writes as the owner must not be had for tables of one's own.
      yield* Effect.provide(
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          yield* sql`CREATE TEMP TABLE forged (LIKE operations)`
          yield* denied(
            "CREATE TRIGGER forge BEFORE UPDATE ON forged FOR EACH ROW EXECUTE FUNCTION operations_transition()"
          )
        }),
        writer
      )
      const forbiddenToRead = [
        "SELECT idempotency_key FROM operations",
        "SELECT provider FROM operations",
        "SELECT reference FROM operations",
        "SELECT * FROM ledger_home",
        "SELECT * FROM operation_payloads",
        "SELECT * FROM operation_history"
      ]
      const forbiddenToWrite = [
        "UPDATE grants SET revoked_at = NULL",
        "UPDATE grants SET expires_at = now()",
        "INSERT INTO clients (id) VALUES ('x')",
        "INSERT INTO grant_revocations (client_id) VALUES ('x')",
        "SELECT * FROM grant_revocations",
        "SELECT * FROM dpop_proofs",
        "DELETE FROM dpop_proofs"
      ]
      yield* Effect.provide(
        Effect.forEach([...forbidden, ...forbiddenToRead, ...forbiddenToWrite], denied),
        readerThatMayTryToWrite
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("reader that checks DPoP proofs can remember and forget them, and no more than that", () =>
    Effect.gen(function*() {
      const { readerThatMayTryToWrite } = yield* rolesWith("proofs")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const proof = { jkt: "key", jti: "proof", expires_at: DateTime.makeUnsafe(0) }
        const isFirst = ProofReplay.use((replay) => replay.remember(proof))
        assert.isTrue(yield* isFirst)
        assert.isFalse(yield* isFirst)
        yield* TestClock.adjust("36 seconds")
        while ((yield* sql`SELECT 1 FROM dpop_proofs`).length > 0);
        yield* denied("UPDATE dpop_proofs SET expires_at = now()")
        yield* denied("INSERT INTO clients (id) VALUES ('x')")
      }).pipe(
        Effect.provide(Layer.provideMerge(ProofReplay.layer, readerThatMayTryToWrite)),
        Effect.provide(TestClock.layer())
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("reader that registers on first sight can do that, sees what was revoked, and revokes nothing", () =>
    Effect.gen(function*() {
      const { readerThatMayTryToWrite, writer } = yield* rolesWith("first sight")
      const shown = { ...registration, learned_from: "token" } as const
      const onFirstSight = Grants.use((grants) => grants.register(shown))
      const revoked = { ...shown, grant: ExternalId.make("revoked") }
      yield* Effect.provide(Grants.use((grants) => grants.revokeExternal(revoked)), Layer.provide(Grants.layer, writer))
      yield* Effect.gen(function*() {
        const grants = yield* Grants
        const grant = yield* onFirstSight
        assert.isNull(grant.revoked_at)
        const later = DateTime.makeUnsafe("2100-01-02T00:00:00Z")
        assert.deepStrictEqual(
          yield* grants.register({ ...shown, expires_at: later }),
          { ...grant, expires_at: later }
        )
        assert.isNotNull((yield* grants.register(revoked)).revoked_at)
        yield* denied("UPDATE grants SET revoked_at = now()")
        yield* denied("UPDATE grants SET registered_by_event_at = now()")
        yield* denied("INSERT INTO grant_revocations (client_id) VALUES ('x')")
        yield* denied("INSERT INTO access_tokens SELECT * FROM access_tokens")
        yield* denied("UPDATE clients SET active = true")
      }).pipe(Effect.provide(Layer.provideMerge(Grants.layer, readerThatMayTryToWrite)))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("the owner need not be a superuser to migrate", () =>
    Effect.gen(function*() {
      const database = yield* createDatabase({ empty: true })
      const owner = `gateway_owner_${database}`
      const asSuperuser = (statements: ReadonlyArray<string>) =>
        SqlClient.SqlClient.use((sql) =>
          Effect.forEach(statements, (statement) => sql.unsafe(statement).unprepared, { discard: true })
        ).pipe(Effect.provide(Layer.fresh(layerFor(database))), Effect.orDie)
      yield* Effect.acquireRelease(
        asSuperuser([`CREATE ROLE ${owner}`, `ALTER DATABASE ${database} OWNER TO ${owner}`]),
        () =>
          asSuperuser([
            `REASSIGN OWNED BY ${owner} TO CURRENT_USER`,
            `DROP OWNED BY ${owner}`,
            `DROP ROLE ${owner}`
          ])
      )
      const applied = yield* Effect.provide(
        migrate,
        Layer.fresh(layerFor(database, { startupParameters: { role: owner } }))
      )
      assert.isAbove(applied.length, 2)
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
