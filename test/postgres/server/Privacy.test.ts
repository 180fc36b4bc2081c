/**
 * Logs and traces hold no token, owner, subject or idempotency key. The tests record both while a gateway on PostgreSQL refuses, fails
 * and breaks in every way.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Grants } from "../../../src/services/Grants.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, type Holder, issue, issueAgain, secrets } from "../../fixtures/http/HttpScene.ts"

/** Applies the statement while the effect runs, and undoes it afterwards. */
const during = <A, E, R>(make: string, undo: string, effect: Effect.Effect<A, E, R>) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.acquireUseRelease(
      sql.unsafe(make).unprepared,
      () => effect,
      () => Effect.orDie(sql.unsafe(undo).unprepared)
    )
  )

const missing = (table: string) =>
  [`ALTER TABLE ${table} RENAME TO away`, `ALTER TABLE away RENAME TO ${table}`] as const

/** Makes the gateway refuse, fail and break in every way that a real database can cause. */
const provoke = Effect.gen(function*() {
  const { send, sendBytes } = yield* Gateway
  const sql = yield* SqlClient.SqlClient
  const grants = yield* Grants
  const holder = yield* issue()
  const { id } = yield* accept(holder)
  const key = `key-${randomUUID()}`
  secrets.add(key)
  const byKey = `/v1/operations?idempotency_key=${key}`
  const targets = ["/v1/operations", `/v1/operations/${id}`]
  const read = ({ token }: Holder) =>
    Effect.forEach([...targets, byKey], (target) => send(target, { token }), { concurrency: 3 })

  for (const target of targets) {
    yield* send(target)
    yield* send(target, { token: `${holder.token}x` })
    yield* send(`${target}?access_token=${holder.token}`, { token: holder.token })
    yield* send(`${target}?state=${holder.token}&x=${holder.grant.subject}`, { token: holder.token })
    yield* send(`${target}?page_token=${holder.token}`, { token: holder.token })
    yield* send(`${target}/${holder.token}`, { token: holder.token })
    yield* send(target, { token: holder.token, headers: { "x-request-id": `${holder.token}!` } })
    yield* sendBytes(
      `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${holder.token}\r\nAuthorization: x\r\n\r\n`,
      "GET",
      target
    )
  }
  yield* sendBytes(`Authorization: Bearer ${holder.token}\r\n\r\n`)
  for (const flaw of ["", "%20", `&idempotency_key=${key}`, "&page_size=0", `&page_token=${key}`]) {
    yield* send(`${byKey}${flaw}`, { token: holder.token })
    yield* send(`${byKey}${flaw}`)
  }

  const revoked = yield* issueAgain(holder)
  yield* grants.revoke(revoked.grant.grant_id)
  yield* read(revoked)
  yield* grants.setClientActive(holder.grant.client_id, false)
  yield* read(holder)
  yield* grants.setClientActive(holder.grant.client_id, true)

  // A mistake in the schema is a defect.
  for (const answer of yield* during(...missing("operations"), read(holder))) assertProblemOf(answer, "internal_error")
  const unseen = yield* issueAgain(holder)
  for (const answer of yield* during(...missing("access_tokens"), read(unseen))) {
    assertProblemOf(answer, "internal_error")
  }
  // An unreachable store is not.
  yield* sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()`
  yield* Effect.forEach(Array.from({ length: 16 }), () => read(holder), { concurrency: 16 })
  const locked = sql.withTransaction(
    Effect.andThen(sql`LOCK TABLE operations IN ACCESS EXCLUSIVE MODE`, read(holder))
  )
  for (const answer of yield* locked) assertProblemOf(answer, "service_unavailable")
  return holder
})

const assertSilence = (texts: ReadonlyArray<string>) => {
  assert.isAbove(secrets.size, 4)
  for (const text of texts) {
    for (const secret of secrets) assert.notInclude(text, secret)
    assert.notMatch(text, /bearer [^r]/i)
    assert.notMatch(text, /fingw_\w/)
  }
}

layer(postgresGateway({ spans: true }), { excludeTestServices: true })("Log lines and trace spans", (it) => {
  it.effect("hold no token, no Authorization header, no owner, subject or idempotency key, in any failure", () =>
    Effect.gen(function*() {
      yield* provoke
      const { lines, spans } = yield* Observer
      const messages = lines.map(({ message }) => message)
      assert.includeMembers(messages, ["Request failed with a defect", "Request failed"])
      const causes = lines.filter(({ annotations }) => annotations["code"] === "service_unavailable")
        .map(({ annotations }) => String(annotations["cause"]))
      assert.isNotEmpty(causes)
      for (const cause of causes) {
        assert.match(cause, /^(?:statement timeout|lock timeout|the database is unreachable): /)
      }
      assertSilence(lines.map(({ text }) => text))
      const texts = spans.map(({ attributes, events, name, status }) =>
        JSON.stringify([name, [...attributes], events.map(([name, , more]) => [name, more]), status._tag])
      )
      assert.isTrue(texts.some((text) => text.includes("/v1/operations")))
      assertSilence(texts)
    }))
})
