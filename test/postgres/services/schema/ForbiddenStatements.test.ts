/**
 * No statement skips a rule of the schema, also in replication mode. The tests run each forbidden statement on
 * PostgreSQL and expect a trigger or constraint to refuse it.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { newRegistration, register, revocations } from "../../../fixtures/ledger/ExternalGrants.ts"
import { PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { attempt, fill, inModes, once, sevenOperations } from "../../../fixtures/postgres/RawSql.ts"

const insert = (values: { readonly id?: string; readonly state?: string; readonly revision?: number }) => `
  INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
    idempotency_key, request_digest, state, revision, created_at, updated_at, completed_at, failure_code,
    failure_message)
  SELECT '${values.id ?? "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"}', client_id, resource_owner, subject, grant_id,
    provider_connection_id, type, 'a-new-key', request_digest, '${values.state ?? "accepted"}', ${values.revision ?? 1},
    created_at, updated_at, completed_at, failure_code, failure_message
  FROM operations WHERE id = :${values.state ?? "accepted"}`

/** Columns that never change while the state is unchanged. */
const changes: Readonly<Record<string, string>> = {
  id: "id = '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f'",
  client: "client_id = :otherClient",
  "resource owner": "resource_owner = 'other'",
  subject: "subject = 'other'",
  grant: "grant_id = :other",
  "provider connection": "provider_connection_id = :otherBinding",
  provider: "provider = 'other'",
  type: "type = 'other'",
  "idempotency key": "idempotency_key = 'other'",
  "request digest": "request_digest = sha256('other')",
  scopes: "scopes = '{other}'",
  "creation time": "created_at = created_at - interval '1 second'",
  revision: "revision = revision + 1",
  "update time": "updated_at = updated_at + interval '1 second'",
  evidence: `evidence = '{"other":1}'`
}
const changesOf = (state: string) =>
  Object.fromEntries(
    Object.entries(changes).map(([name, assignment]) => [
      `change the ${name} of an operation that is ${state}`,
      `UPDATE operations SET ${assignment} WHERE id = :${state}`
    ])
  )

/** What an operator may not state: members in place of those of `operatorEvidence`. */
const wrongEvidence: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "without its question": { question: undefined },
  "with an empty question": { question: " " },
  "without whom the operator asked": { asked: undefined },
  "without when the operator asked": { asked_at: undefined },
  "of a day": { asked_at: "2026-05-02" },
  "of an instant that does not exist": { asked_at: "2026-02-30T09:30:00Z" },
  "who asked before the creation": { asked_at: "2000-05-02T09:30:00Z" },
  "who asked in the future": { asked_at: "9000-05-02T09:30:00Z" },
  "without the provider's reference": { reference: undefined },
  "with a reference that is no text": { reference: 88 },
  "without the answer": { answer: undefined },
  "with an empty answer, and no digest of a document": { answer: " ", document_sha256: "letter.pdf" }
}
const proofOf = (members: Readonly<Record<string, unknown>>, state = "indeterminate") =>
  `UPDATE operations SET state = 'succeeded', revision = revision + 1,
    evidence = replace('${
    JSON.stringify({ by: "operator", ...evidenceOf({ created_at: "ASKED" }), ...members })
  }', 'ASKED',
      to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))::json WHERE id = :${state}`

/** Statements that must fail, by the rule that each breaks. */
const forbidden: Readonly<Record<string, string>> = {
  "delete an operation": "DELETE FROM operations WHERE id = :accepted",
  "delete a terminal operation, however old": "DELETE FROM operations WHERE id = :cancelled",
  "delete an indeterminate operation, however old": "DELETE FROM operations WHERE id = :indeterminate",
  "delete all operations": "DELETE FROM operations",
  "truncate operations": "TRUNCATE operations, operation_history, operation_payloads",
  "truncate operations by cascade": "TRUNCATE operations CASCADE",
  "truncate operations, also when the history has no guard":
    "DO $$BEGIN ALTER TABLE operation_history DISABLE TRIGGER USER; TRUNCATE operations CASCADE; END$$",
  "truncate operations alone": "TRUNCATE operations",
  "change the key of an operation, which its history has":
    "UPDATE operations SET id = '01890000-0000-7000-8000-000000000000', client_id = :otherClient, grant_id = :other WHERE id = :accepted",
  "truncate operations by way of their clients": "TRUNCATE clients CASCADE",
  "truncate operations by way of their grants": "TRUNCATE grants CASCADE",
  "truncate operations by way of their provider connections": "TRUNCATE provider_connections CASCADE",

  ...changesOf("accepted"),
  ...changesOf("submitting"),
  ...changesOf("indeterminate"),
  ...changesOf("succeeded"),
  ...changesOf("failed"),
  ...changesOf("cancelled"),
  "complete an operation that is not terminal": "UPDATE operations SET completed_at = now() WHERE id = :accepted",
  "give a failure to an operation that did not fail":
    "UPDATE operations SET failure_code = 'x', failure_message = 'x' WHERE id = :accepted",
  "remove the completion time of a succeeded operation":
    "UPDATE operations SET completed_at = NULL WHERE id = :succeeded",
  "change why an operation failed": "UPDATE operations SET failure_message = 'other' WHERE id = :failed",
  "review a succeeded operation": "UPDATE operations SET under_review = true WHERE id = :succeeded",
  "review a failed operation": "UPDATE operations SET under_review = true WHERE id = :failed",
  "review a cancelled operation": "UPDATE operations SET under_review = true WHERE id = :cancelled",
  "change its owner along with a transition":
    "UPDATE operations SET state = 'submitting', revision = 2, resource_owner = 'other' WHERE id = :accepted",
  "change its subject along with a transition":
    "UPDATE operations SET state = 'submitting', revision = 2, subject = 'other' WHERE id = :accepted",

  "cancel a held operation that may have been sent":
    "DO $$BEGIN UPDATE operations SET hold_placed = true WHERE id = :accepted; UPDATE operations SET state = 'cancelled', revision = 2 WHERE id = :accepted; END$$",
  "claim that a held operation was never sent":
    "DO $$BEGIN UPDATE operations SET hold_placed = true WHERE id = :accepted; UPDATE operations SET unsent_in = history FROM ledger_home WHERE id = :accepted; END$$",
  "move without raising the revision": "UPDATE operations SET state = 'submitting' WHERE id = :accepted",
  "skip a revision": "UPDATE operations SET state = 'submitting', revision = revision + 2 WHERE id = :accepted",
  "lower the revision": "UPDATE operations SET state = 'submitted', revision = revision - 1 WHERE id = :submitting",
  "move to a state that does not exist": "UPDATE operations SET state = 'done', revision = 2 WHERE id = :accepted",
  "fail an operation as never received that the provider has acknowledged":
    "UPDATE operations SET state = 'failed', revision = revision + 1, failure_code = 'provider_never_received', failure_message = 'x' WHERE id = :submitted",
  "leave indeterminate without evidence":
    "UPDATE operations SET state = 'succeeded', revision = revision + 1, evidence = NULL WHERE id = :indeterminate",
  "leave indeterminate with the evidence that led into it":
    "UPDATE operations SET state = 'succeeded', revision = revision + 1 WHERE id = :indeterminate",
  "keep evidence without a transition": "UPDATE operations SET evidence = '{\"old\":true}' WHERE id = :indeterminate",
  "leave indeterminate with empty evidence":
    "UPDATE operations SET state = 'succeeded', revision = revision + 1, evidence = ' { } ' WHERE id = :indeterminate",
  "leave indeterminate with evidence that is not an object":
    "UPDATE operations SET state = 'succeeded', revision = revision + 1, evidence = '[1]' WHERE id = :indeterminate",
  "leave indeterminate with evidence that is null":
    "UPDATE operations SET state = 'succeeded', revision = revision + 1, evidence = 'null' WHERE id = :indeterminate",
  ...Object.fromEntries(
    Object.entries(wrongEvidence).map(([name, members]) => [
      `leave indeterminate with evidence of an operator ${name}`,
      proofOf(members)
    ])
  ),
  "let an operator end a submitting operation without an answer": proofOf({ answer: undefined }, "submitting"),
  "let an operator end a submitted operation without an answer": proofOf({ answer: undefined }, "submitted"),
  ...Object.fromEntries(
    (["payment", "answer"] as const).map((reference_of) => [
      `let an operator end an operation by the reference of another one, as that of the ${reference_of}`,
      `DO $$BEGIN
        ${proofOf({ reference: "PAY-1" }, "submitting")};
        ${proofOf({ reference: " PAY-1 ", reference_of })};
      END$$`
    ])
  ),
  "let an operator end an operation by another reference than that of the provider": `DO $$BEGIN
      UPDATE operations SET reference = 'theirs' WHERE id = :submitted;
      ${proofOf({}, "submitted")};
    END$$`,
  "cancel an indeterminate operation, even with evidence":
    `UPDATE operations SET state = 'cancelled', revision = revision + 1, evidence = '{"age":"a year"}'
     WHERE id = :indeterminate`,
  "fail without a failure": "UPDATE operations SET state = 'failed', revision = 2 WHERE id = :accepted",
  "fail without a message":
    "UPDATE operations SET state = 'failed', revision = 2, failure_code = 'x' WHERE id = :accepted",
  "fail without a code":
    "UPDATE operations SET state = 'failed', revision = 2, failure_message = 'x' WHERE id = :accepted",
  "fail with a malformed code":
    "UPDATE operations SET state = 'failed', revision = 2, failure_code = 'X y', failure_message = 'x' WHERE id = :accepted",
  "succeed with a failure":
    `UPDATE operations SET state = 'succeeded', revision = revision + 1, failure_code = 'x', failure_message = 'x'
     WHERE id = :submitted`,

  "create an operation that is submitting": insert({ state: "submitting" }),
  "create an operation that is terminal": insert({ state: "failed" }),
  "create an operation at another revision": insert({ revision: 2 }),
  "create an operation whose id is not a UUIDv7": insert({ id: "019aa4f0-5c00-4b1e-8d2f-3a4b5c6d7e8f" }),
  "create an operation under a key that was used before": insert({}).replace("'a-new-key'", "idempotency_key"),
  "rebind a key by an upsert": `${insert({}).replace("'a-new-key'", "idempotency_key")}
     ON CONFLICT (client_id, subject, idempotency_key) DO UPDATE SET request_digest = sha256('other')`,

  "write history": `INSERT INTO operation_history (operation_id, client_id, revision, to_state, at)
    VALUES (:accepted, :client, 2, 'submitting', now())`,
  "write history of an operation that does not exist":
    `INSERT INTO operation_history (operation_id, client_id, revision, to_state, at)
     VALUES ('019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f', :client, 1, 'accepted', now())`,
  "copy history": `INSERT INTO operation_history SELECT operation_id, client_id, revision + 10, to_state, to_state, at
    FROM operation_history`,
  "change history": "UPDATE operation_history SET evidence = NULL WHERE operation_id = :submitted",
  "change the history of nothing": "UPDATE operation_history SET evidence = NULL WHERE false",
  "take an unsettled operation from every schedule": "UPDATE operations SET due_at = NULL WHERE id = :accepted",
  "remove an indeterminate operation from every schedule, however old it is":
    "UPDATE operations SET due_at = NULL WHERE id = :indeterminate",
  "schedule a settled operation": "UPDATE operations SET due_at = now() WHERE id = :succeeded",
  "count a status read of a settled operation": "UPDATE operations SET reads = reads + 1 WHERE id = :succeeded",
  "give a reference to a settled operation": "UPDATE operations SET reference = 'theirs' WHERE id = :cancelled",
  "schedule an operation in the transaction that settles it": `DO $$BEGIN
      UPDATE operations SET state = 'cancelled', revision = 2, due_at = now() WHERE id = :accepted;
      UPDATE operations SET due_at = now() WHERE id = :accepted;
    END$$`,
  "change the reference that the provider gave": `DO $$BEGIN
      UPDATE operations SET reference = 'theirs' WHERE id = :submitted;
      UPDATE operations SET reference = 'other' WHERE id = :submitted;
    END$$`,
  "remove the reference that the provider gave": `DO $$BEGIN
      UPDATE operations SET reference = 'theirs' WHERE id = :submitted;
      UPDATE operations SET state = 'indeterminate', revision = revision + 1, reference = NULL WHERE id = :submitted;
    END$$`,
  "store an empty reference": "UPDATE operations SET reference = '' WHERE id = :submitted",

  "change a payload": "UPDATE operation_payloads SET payload = 'other' WHERE operation_id = :accepted",
  "change the key of a payload": "UPDATE operation_payloads SET key_id = 'other' WHERE operation_id = :accepted",
  "change the payloads of nothing": "UPDATE operation_payloads SET payload = 'other' WHERE false",
  "give a payload to another operation":
    "UPDATE operation_payloads SET operation_id = :succeeded WHERE operation_id = :accepted",
  "delete the payload of an accepted operation": "DELETE FROM operation_payloads WHERE operation_id = :accepted",
  "delete the payload of an indeterminate operation, however old it is":
    "DELETE FROM operation_payloads WHERE operation_id = :indeterminate",
  "delete the payloads of nothing": "DELETE FROM operation_payloads WHERE false",
  "delete all payloads": "DELETE FROM operation_payloads",
  "truncate payloads": "TRUNCATE operation_payloads",
  "give a second payload to an operation":
    "INSERT INTO operation_payloads (operation_id, client_id, payload) VALUES (:accepted, :client, 'other')",
  "replace a payload by an upsert":
    `INSERT INTO operation_payloads (operation_id, client_id, payload) VALUES (:accepted, :client, 'other')
     ON CONFLICT (operation_id, client_id) DO UPDATE SET payload = excluded.payload`,
  "give a payload a malformed key name":
    "INSERT INTO operation_payloads (operation_id, client_id, payload, key_id) VALUES (:cancelled, :client, '1', 'a key')",

  "delete history": "DELETE FROM operation_history WHERE operation_id = :submitted",
  "truncate history": "TRUNCATE operation_history",

  "take a revocation back": "UPDATE grants SET revoked_at = NULL WHERE id = :revoked",
  "move a revocation": "UPDATE grants SET revoked_at = revoked_at + interval '1 hour' WHERE id = :revoked",
  "change the id of a grant": "UPDATE grants SET id = '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f' WHERE id = :other",
  "change the client of a grant": "UPDATE grants SET client_id = :client WHERE id = :other",
  "change the owner of a grant": "UPDATE grants SET resource_owner = 'other' WHERE id = :other",
  "change the subject of a grant": "UPDATE grants SET subject = 'other' WHERE id = :other",
  "change the provider connection of a grant": "UPDATE grants SET provider_connection_id = :binding WHERE id = :other",
  "change the creation time of a grant": "UPDATE grants SET created_at = now() WHERE id = :other",
  "shorten a grant that the gateway issued":
    "UPDATE grants SET expires_at = expires_at - interval '1 second' WHERE id = :grant",
  "prolong a grant that the gateway issued":
    "UPDATE grants SET expires_at = expires_at + interval '1 second' WHERE id = :grant",
  "add a scope to a grant that the gateway issued": "UPDATE grants SET scopes = scopes || '{other}' WHERE id = :grant",
  "delete a grant": "DELETE FROM grants WHERE id = :grant",
  "delete a grant that was revoked, in order to issue it again": "DELETE FROM grants WHERE id = :revoked",
  "truncate grants": "TRUNCATE grants",

  "point a token at another grant":
    "UPDATE access_tokens SET grant_id = :other, client_id = :otherClient WHERE grant_id = :revoked",
  "delete a token": "DELETE FROM access_tokens WHERE grant_id = :grant",
  "empty the table of tokens": "TRUNCATE access_tokens",
  "change a token": "UPDATE access_tokens SET digest = sha256('other') WHERE grant_id = :grant",
  "change the offset of the change feed": "UPDATE ledger_home SET change_offset = change_offset + 1",
  "lower the offset of the change feed": "UPDATE ledger_home SET change_offset = -1, history = gen_random_uuid()",
  "forget the offset of the change feed": "DELETE FROM ledger_home",
  "empty the home of the ledger": "TRUNCATE ledger_home",
  "give the ledger a second home":
    "INSERT INTO ledger_home (system_identifier, database, change_offset) VALUES (1, 1, 1)",
  "store a token that is not a SHA-256":
    "INSERT INTO access_tokens (digest, grant_id, client_id) VALUES ('fingw_', :grant, :client)",

  "delete a revocation": "DELETE FROM grant_revocations",
  "delete no revocation": "DELETE FROM grant_revocations WHERE false",
  "truncate revocations": "TRUNCATE grant_revocations",
  "make a revocation earlier": "UPDATE grant_revocations SET revoked_at = revoked_at - interval '1 millisecond'",
  "remove the time of a revocation": "UPDATE grant_revocations SET revoked_at = NULL",
  "move a revocation to another client": "UPDATE grant_revocations SET client_id = 'other'",
  "move a revocation to another issuer": "UPDATE grant_revocations SET issuer = 'other'",
  "move a revocation to another subject": "UPDATE grant_revocations SET subject = 'other' WHERE subject IS NOT NULL",
  "move a revocation to another grant": "UPDATE grant_revocations SET external_id = 'x' WHERE external_id IS NOT NULL",
  "narrow a revocation to one grant":
    "UPDATE grant_revocations SET external_id = 'x' WHERE external_id IS NULL AND issuer IS NOT NULL",
  "narrow a revocation of a client to an issuer": "UPDATE grant_revocations SET issuer = 'x' WHERE issuer IS NULL",
  "store a revocation twice instead of renewing it":
    "INSERT INTO grant_revocations (client_id, issuer) SELECT client_id, issuer FROM grant_revocations WHERE issuer IS NULL",
  "revoke a subject without an issuer": "INSERT INTO grant_revocations (client_id, subject) VALUES ('c', 's')",
  "revoke an external grant without an issuer":
    "INSERT INTO grant_revocations (client_id, external_id) VALUES ('c', 'g')",
  "revoke a grant of one subject alone":
    "INSERT INTO grant_revocations (client_id, issuer, external_id, subject) VALUES ('c', 'i', 'g', 's')",
  "delete a grant of an authorization server, in order to register it anew":
    "DELETE FROM grants WHERE issuer IS NOT NULL",
  "give a grant another issuer": "UPDATE grants SET issuer = 'other' WHERE issuer IS NOT NULL",
  "give a grant another name": "UPDATE grants SET external_id = 'other' WHERE issuer IS NOT NULL",
  "give an issuer to a grant of the gateway":
    "UPDATE grants SET issuer = 'other', external_id = 'other' WHERE issuer IS NULL",
  "take the issuer of a grant away": "UPDATE grants SET issuer = NULL, external_id = NULL WHERE issuer IS NOT NULL",
  "remove the time of a registration by an event":
    "UPDATE grants SET registered_by_event_at = NULL WHERE issuer IS NOT NULL",
  "mark a grant of the gateway as registered by an event":
    "UPDATE grants SET registered_by_event_at = now() WHERE issuer IS NULL",
  "register a grant twice, under two ids": `
    INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at, issuer, external_id)
    SELECT '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f', client_id, resource_owner, subject, provider_connection_id, scopes,
      expires_at, issuer, external_id
    FROM grants WHERE issuer IS NOT NULL LIMIT 1`,
  "give an external id to a grant without an issuer": `
    INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at, external_id)
    SELECT '019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f', client_id, resource_owner, subject, provider_connection_id, scopes,
      expires_at, 'name'
    FROM grants LIMIT 1`
}

/** SQLSTATEs of refusals by constraints and triggers; any other is a mistake in the statement of the test. */
const refusals = [
  "23001", // restrict_violation: a trigger
  "23502", // not_null_violation
  "23503", // foreign_key_violation
  "23505", // unique_violation
  "23514", // check_violation
  "22008", // datetime_field_overflow: an instant that does not exist
  "0A000" // feature_not_supported: TRUNCATE of a table that others refer to
]

layer(PostgresLedger, { excludeTestServices: true })("no statement can", (it) => {
  const world = once(Effect.gen(function*() {
    const registration = newRegistration()
    yield* register(registration)
    for (const revoke of Object.values(revocations)) yield* revoke(registration)
    return yield* sevenOperations
  }))
  it.effect("be refused for evidence that has all of it", () =>
    Effect.gen(function*() {
      assert.isArray(yield* attempt("origin", fill(proofOf({}), yield* world)))
    }))
  for (const [name, text] of Object.entries(forbidden)) {
    inModes(it, name, (mode) =>
      Effect.gen(function*() {
        assert.include(refusals, yield* attempt(mode, fill(text, yield* world)))
      }))
  }
})
