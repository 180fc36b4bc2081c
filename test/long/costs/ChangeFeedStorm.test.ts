/**
 * A reader that is killed again and again, and continues from its stored token, misses no change of eight busy writers. The
 * writers are loops inside PostgreSQL, whose transactions overlap, wait for each other, and are rolled back now and then.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../../src/domain/Grant.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { type FeedReader, feedReader } from "../../fixtures/ledger/Changes.ts"
import { issue, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { anotherPool, anotherProcess } from "../../fixtures/postgres/Pools.ts"

const writers = 8
const changes = rounds(2500, 100_000)
const kills = 100

/** A random UUIDv7. */
const randomId = "overlay(gen_random_uuid()::text placing '7' from 15)::uuid"

/**
 * Accepts and moves operations until `quota` changes are committed. A transaction has one to four changes, or many. Those of
 * one hot operation wait for each other, and a subtransaction gives up when it waits for long.
 */
const writer = ({ client_id, grant_id, provider_connection_id, resource_owner, subject }: Grant, quota: number) => `
  DO $$
  DECLARE
    done integer := 0;
    made integer;
    wanted integer;
    it uuid;
  BEGIN
    PERFORM set_config('lock_timeout', '5ms', false);
    WHILE done < ${quota} LOOP
      made := 0;
      wanted := CASE WHEN random() < 0.02 THEN 60 ELSE 1 + floor(random() * 4) END;
      FOR n IN 1..wanted LOOP
        BEGIN
          IF random() < 0.1 THEN
            INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
              idempotency_key, request_digest, state, revision)
            VALUES (${randomId}, '${client_id}', '${resource_owner}', '${subject}', '${grant_id}',
              '${provider_connection_id}', 'payment', gen_random_uuid()::text, sha256('x'), 'accepted', 1);
          ELSE
            it := CASE WHEN random() < 0.02 THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE ${randomId} END;
            UPDATE operations SET revision = revision + 1, evidence = '{"by":"writer"}', state = CASE state
                WHEN 'accepted' THEN 'submitting' WHEN 'submitted' THEN 'indeterminate' ELSE 'submitted' END
            WHERE id = (SELECT id FROM operations WHERE id > it ORDER BY id LIMIT 1);
          END IF;
          IF FOUND THEN made := made + 1; END IF;
        -- PostgreSQL reports a lock timeout as a cancellation when its signal comes late.
        EXCEPTION WHEN lock_not_available OR deadlock_detected OR query_canceled THEN NULL;
        END;
        IF random() < 0.002 THEN PERFORM pg_sleep(random() / 20); END IF;
      END LOOP;
      IF random() < 0.1 THEN
        ROLLBACK;
      ELSE
        COMMIT;
        done := done + made;
      END IF;
    END LOOP;
  END $$`

/** What a consumer keeps: its copy of the operations, and the token that it stored last. */
const consumer = (reader: FeedReader) => {
  const copy = new Map<string, number>()
  let token: ReturnType<FeedReader["token"]> = null
  let lives = 0
  let mostPending = 0

  const step = Effect.gen(function*() {
    const { has_more, operations } = yield* reader.page(1 + Math.floor(Math.random() * 100))
    for (const { id, revision } of operations) {
      assert.isAtLeast(revision, copy.get(id) ?? 0, "a revision went back")
      copy.set(id, revision)
      // A killed reader has applied a part of the page.
      if (Math.random() < 0.05) yield* Effect.yieldNow
    }
    token = reader.token()
    mostPending = Math.max(mostPending, (yield* Effect.orDie(reader.position)).pending.length)
    return has_more
  })

  /** Reads until it is killed: at any await of some page. */
  const life = Effect.gen(function*() {
    reader.resume(token)
    const fiber = yield* Effect.forkChild(
      Effect.forever(Effect.tap(step, (has_more) => has_more ? Effect.void : Effect.sleep("10 millis")))
    )
    yield* Effect.raceFirst(Fiber.join(fiber), Effect.sleep(Math.random() * 100))
    yield* Fiber.interrupt(fiber)
  })

  return {
    copy,
    mostPending: () => mostPending,
    /** Lives again and again until the effect has ended, and then reads the rest. */
    during: Effect.fnUntraced(function*<A, E>(writing: Fiber.Fiber<A, E>) {
      while (writing.pollUnsafe() === undefined || lives < kills) {
        lives++
        yield* life
      }
      reader.resume(token)
      while (yield* step);
    })
  }
}

layer(PostgresLedger, { excludeTestServices: true })("A reader that is killed again and again", (it) => {
  it.effect(
    `has all ${changes} changes of ${writers} writers in the end, and no revision ever went back`,
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant, identity } = yield* issue()
        const pool = yield* Layer.build(
          anotherPool({ maxConnections: writers, multiplex: false, startupParameters: { synchronous_commit: "off" } })
        )
        const write = Effect.flatMap(
          Effect.provideContext(SqlClient.SqlClient, pool),
          (sql) => sql.unsafe(writer(grant, Math.ceil(changes / writers))).unprepared
        )
        const writing = yield* Effect.forkChild(
          Effect.all(Array.from({ length: writers }, () => write), { concurrency: writers, discard: true })
        )
        const consumers = [consumer(feedReader(identity)), consumer(feedReader(null))]
        yield* Effect.forEach(
          consumers,
          ({ during }) => Effect.provide(during(writing), anotherProcess({ maxConnections: 2 })),
          { concurrency: 2 }
        )
        yield* Fiber.join(writing)
        const rows = yield* sql<{ readonly id: string; readonly revision: number }>`SELECT id, revision FROM operations`
        const expected = new Map(rows.map(({ id, revision }) => [id, revision]))
        assert.isAtLeast([...expected.values()].reduce((sum, revision) => sum + revision, 0), changes)
        for (const { copy, mostPending } of consumers) {
          assert.isAbove(mostPending(), 0, "the transactions of the writers did not overlap")
          assert.deepStrictEqual(new Map([...copy].toSorted()), new Map([...expected].toSorted()))
        }
      }).pipe(Effect.scoped),
    900_000
  )
})
