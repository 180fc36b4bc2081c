/**
 * A planned switchover releases an operation only if no worker can have sent it, and nothing at all if the new primary lacks what the
 * old one acknowledged. The tests promote real standbys of PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { type BegunSwitchover, Switchover, type SwitchoverRound } from "../../../src/cluster/Switchover.ts"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import type { ActingOperator } from "../../../src/domain/operators/OperatorView.ts"
import type { Cluster } from "../../../src/node/embedded/Cluster.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperatorActions } from "../../../src/services/operators/OperatorActions.ts"
import { storeFailure } from "../../../src/services/StoreUnavailable.ts"
import { accept } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimIds, issueAtNewProvider, takeIds } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { newLedger, type servicesOn, standbyOf, whileRunning } from "../../fixtures/postgres/OwnServer.ts"

const operator: ActingOperator = { name: "ada", via: "command", reason: "a new kernel" }

const Operators = Layer.merge(Switchover.layer, OperatorActions.layer)

type Services = Layer.Success<ReturnType<typeof servicesOn>> | Layer.Success<typeof Operators>

const running = <A, E>(cluster: Cluster, effect: Effect.Effect<A, E, Services>) =>
  whileRunning(cluster, Effect.provide(effect, Operators))

/** Promotes the standby first. */
const promoted = <A, E>(standby: Cluster, effect: Effect.Effect<A, E, Services>) =>
  running(standby, Effect.andThen(SqlClient.SqlClient.use((sql) => sql`SELECT pg_promote()`), effect))

const begin = Switchover.use((service) => service.begin(operator, Duration.hours(1)))
const round = (begun: BegunSwitchover) => Switchover.use((service) => service.round(begun))
const finish = (begun: BegunSwitchover, last: SwitchoverRound | null) =>
  Switchover.use((service) => service.finish(begun, last, operator))

/** Why `finish` refuses. */
const refusal = (begun: BegunSwitchover, last: SwitchoverRound | null) =>
  Effect.map(
    Effect.flip(finish(begun, last)),
    (error) => error._tag === "SwitchoverUnproven" ? error.reason : error._tag
  )

/** Rounds until the changes are marked: at most once a second. */
const marked = (begun: BegunSwitchover, after: number | null) =>
  Effect.repeat(Effect.delay(round(begun), "50 millis"), { until: ({ marked_at }) => (marked_at ?? 0) > (after ?? 0) })

const recorded = SqlClient.SqlClient.use((sql) =>
  sql<{ readonly action: string; readonly affected: number | null; readonly result: string }>`
    SELECT action, affected, result FROM operator_actions WHERE operation_id IS NULL ORDER BY at`
)

const report = (worker_id: string, process_id = crypto.randomUUID()) =>
  Effect.flatMap(
    Queue,
    ({ reportWorker }) => reportWorker({ process_id, worker_id, pauses: {}, clock_skew_ms: null })
  )

/** Accepts an operation that waits for an approval. */
const acceptWaiting = (identity: GrantIdentity) =>
  accept(
    { ...identity, authorization_details: [{ type: "financial_operations", approval: { new_payees: true } }] },
    { terms: { amount: "1.00", currency: "EUR", payee: "A" } }
  )

/** A ledger with a grant. */
const scene = Effect.gen(function*() {
  const primary = yield* newLedger
  const { grant: { provider }, identity } = yield* running(primary, issueAtNewProvider())
  return { primary, provider, identity }
})

describe("A planned switchover", () => {
  it.live("lets no worker claim before the promotion, releases all after it, and each is claimed once", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const { begun, ids, last } = yield* running(
        primary,
        Effect.gen(function*() {
          const before = yield* acceptSeveral(identity, 3)
          yield* acceptWaiting(identity)
          const [sent] = yield* claimIds(provider, 1)
          const begun = yield* begin
          assert.strictEqual(begun.held, 2)
          const { operation: { id: late } } = yield* accept(identity)
          yield* round(begun)
          assert.deepStrictEqual(yield* claimIds(provider), [], "what was accepted before the round")
          assert.deepStrictEqual([...yield* takeIds("takeHeld", provider)], [], "no reconciler examines them")
          const last = yield* round(begun)
          const { operation: { id: latest } } = yield* accept(identity)
          return { begun, last, ids: [...before.filter((id) => id !== sent), late, latest] }
        })
      )
      yield* promoted(
        yield* standbyOf(primary),
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* claimIds(provider), [], "held until they are released")
          assert.strictEqual((yield* round(begun)).timeline, 2)
          assert.deepStrictEqual(yield* finish(begun, last), {
            timeline: 2,
            released: 4,
            still_held: 0,
            awaiting_approval: 1
          })
          assert.sameMembers([...yield* claimIds(provider)], ids)
          assert.deepStrictEqual(yield* claimIds(provider), [])
          assert.deepStrictEqual(
            (yield* recorded).map(({ action, affected, result }) => [action, affected, result]),
            [["hold_all", 2, "done"], ["release_all", 4, "done"]]
          )
        })
      )
    }).pipe(Effect.scoped))

  it.live("ends no change token", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const { begun, last, token } = yield* running(
        primary,
        Effect.gen(function*() {
          yield* acceptSeveral(identity, 2)
          const begun = yield* begin
          const last = yield* marked(begun, null)
          return { begun, last, token: yield* OperationFeed.use(({ now }) => now) }
        })
      )
      yield* promoted(
        yield* standbyOf(primary),
        Effect.gen(function*() {
          yield* finish(begun, last)
          yield* Effect.flatMap(Queue, ({ markChanges }) => markChanges)
          yield* claimIds(provider)
          const { changes } = yield* OperationFeed.use((feed) => feed.sinceInLedger(token, 10))
          assert.lengthOf(changes, 2)
        })
      )
    }).pipe(Effect.scoped))

  it.live("releases nothing on a standby that missed the holds, and records why", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      yield* running(primary, acceptSeveral(identity, 2))
      const standby = yield* standbyOf(primary)
      const begun = yield* running(primary, Effect.andThen(claimIds(provider, 1), begin))
      yield* promoted(
        standby,
        Effect.gen(function*() {
          assert.strictEqual(yield* refusal(begun, null), "lost_hold")
          assert.deepStrictEqual(yield* claimIds(provider), [])
          const [action] = yield* recorded
          assert.deepInclude(action, { action: "release_all", affected: null })
          assert.include(action!.result, "it lost commits")
        })
      )
    }).pipe(Effect.scoped))

  it.live("releases nothing on a standby that lacks changes that the old primary acknowledged after the holds", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const begun = yield* running(
        primary,
        Effect.gen(function*() {
          yield* acceptSeveral(identity, 2)
          return yield* begin
        })
      )
      const standby = yield* standbyOf(primary)
      const last = yield* running(
        primary,
        Effect.gen(function*() {
          const { marked_at } = yield* round(begun)
          yield* accept(identity)
          return yield* marked(begun, marked_at)
        })
      )
      yield* promoted(
        standby,
        Effect.gen(function*() {
          assert.strictEqual(yield* refusal(begun, last), "lost_changes")
          assert.deepStrictEqual(yield* claimIds(provider), [])
        })
      )
    }).pipe(Effect.scoped))

  it.live("leaves held what an operator, an earlier failover, a hint or an examination holds", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const earlier = yield* running(primary, acceptSeveral(identity, 1))
      const second = yield* standbyOf(primary)
      const { begun, ours, theirs } = yield* promoted(
        second,
        Effect.gen(function*() {
          const actions = yield* OperatorActions
          const [before, after, untouched, hinted] = yield* acceptSeveral(identity, 4)
          yield* actions.perform("hold", before!, operator)
          const begun = yield* begin
          assert.strictEqual(begun.held, 3)
          yield* actions.perform("hold", after!, operator)
          yield* Effect.flatMap(Queue, (queue) => queue.hint(provider, { operation_id: hinted! }, Duration.seconds(1)))
          return { begun, ours: untouched!, theirs: [...earlier, before!, after!, hinted!] }
        })
      )
      const third = yield* standbyOf(second)
      // Nothing was held on this timeline.
      const between = yield* promoted(third, acceptSeveral(identity, 1))
      yield* promoted(
        yield* standbyOf(third),
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* finish(begun, null), {
            timeline: 4,
            released: 1,
            still_held: theirs.length + between.length,
            awaiting_approval: 0
          })
          assert.deepStrictEqual(yield* claimIds(provider), [ours])
        })
      )
    }).pipe(Effect.scoped))

  it.live("leaves held what was accepted after the last round, if a reconciler has examined it: status reads settle it", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const begun = yield* running(primary, Effect.tap(begin, () => accept(identity)))
      yield* promoted(
        yield* standbyOf(primary),
        Effect.gen(function*() {
          assert.lengthOf(yield* takeIds("takeHeld", provider), 1)
          assert.deepStrictEqual(yield* finish(begun, null), {
            timeline: 2,
            released: 0,
            still_held: 1,
            awaiting_approval: 0
          })
        })
      )
    }).pipe(Effect.scoped))

  it.live("does not begin while a worker reports itself, and names it", () =>
    Effect.gen(function*() {
      const { identity, primary } = yield* scene
      yield* running(
        primary,
        Effect.gen(function*() {
          yield* acceptSeveral(identity, 1)
          const id = crypto.randomUUID()
          yield* report("db1", id)
          const refused = yield* Effect.flip(begin)
          assert.isTrue(refused._tag === "WorkersRunning" && refused.message.includes("db1"), refused.message)
          assert.deepStrictEqual(yield* recorded, [])
          yield* Effect.flatMap(Queue, ({ forgetWorker }) => forgetWorker(id))
          assert.strictEqual((yield* begin).held, 1)
        })
      )
    }).pipe(Effect.scoped))

  it.live("lets a worker that starts too early claim nothing: a standby that lags lacks no claim", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const { begun, last } = yield* running(
        primary,
        Effect.gen(function*() {
          const begun = yield* begin
          const last = yield* round(begun)
          yield* accept(identity)
          return { begun, last }
        })
      )
      const standby = yield* standbyOf(primary)
      yield* running(
        primary,
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* claimIds(provider), [])
          // As a worker of an earlier version, which does not look at the stop.
          const sql = yield* SqlClient.SqlClient
          const claim =
            sql`UPDATE operations SET state = 'submitting', revision = revision + 1, send_before = now() + interval '1 minute'
            WHERE state = 'accepted' AND provider = ${provider}`
          assert.include(storeFailure(yield* Effect.flip(claim)), "a planned switchover has stopped all claims")
        })
      )
      yield* promoted(
        standby,
        Effect.gen(function*() {
          assert.strictEqual((yield* finish(begun, last)).released, 1)
          assert.lengthOf(yield* claimIds(provider), 1)
        })
      )
    }).pipe(Effect.scoped))

  it.live("leaves held what was accepted or approved after the last round, if another command let claims go on: it may be sent", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      const { begun, held, last } = yield* running(
        primary,
        Effect.gen(function*() {
          const held = yield* acceptSeveral(identity, 1)
          yield* acceptWaiting(identity)
          const begun = yield* begin
          const last = yield* round(begun)
          yield* finish(yield* begin, null)
          yield* accept(identity)
          return { begun, held, last }
        })
      )
      const standby = yield* standbyOf(primary)
      // The standby lacks this claim.
      assert.lengthOf(yield* running(primary, claimIds(provider)), 1)
      yield* promoted(
        standby,
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* finish(begun, last), {
            timeline: 2,
            released: 1,
            still_held: 2,
            awaiting_approval: 0
          })
          assert.deepStrictEqual(yield* claimIds(provider), held)
        })
      )
    }).pipe(Effect.scoped))

  it.live("takes its holds back if no standby is promoted", () =>
    Effect.gen(function*() {
      const { identity, primary, provider } = yield* scene
      yield* running(
        primary,
        Effect.gen(function*() {
          const ids = yield* acceptSeveral(identity, 2)
          const begun = yield* begin
          const last = yield* round(begun)
          assert.deepStrictEqual(yield* finish(begun, last), {
            timeline: 1,
            released: 2,
            still_held: 0,
            awaiting_approval: 0
          })
          assert.sameMembers([...yield* claimIds(provider)], [...ids])
        })
      )
    }).pipe(Effect.scoped))

  it.live("releases nothing in another ledger, and after `hold --all`", () =>
    Effect.gen(function*() {
      const { identity, primary } = yield* scene
      yield* running(
        primary,
        Effect.gen(function*() {
          yield* acceptSeveral(identity, 1)
          const begun = yield* begin
          yield* OperatorActions.use((actions) => actions.holdAll(operator))
          assert.strictEqual(yield* refusal(begun, null), "another_ledger")
        })
      )
    }).pipe(Effect.scoped))
})
