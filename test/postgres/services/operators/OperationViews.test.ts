/**
 * What operators see of an operation agrees with the rules of the queue: its schedule, hold, consent and next action. The tests run on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import { OperationId } from "../../../../src/domain/Operation.ts"
import { OperatorDetail, OperatorSummary } from "../../../../src/domain/operators/OperatorView.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { OperatorActions } from "../../../../src/services/operators/OperatorActions.ts"
import { having, type Keys } from "../../../fixtures/ledger/Backstage.ts"
import { accept, drive, newKey, nextMillisecond, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  claimIds,
  claimTerms,
  failOver,
  inspect,
  isAbout,
  issueAtNewProvider,
  late,
  pass,
  queued,
  readTerms,
  reference,
  returnTerms,
  standingLosses,
  takeIds,
  takeOverIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const Search = Layer.mergeAll(OperationSearch.layer, OperatorActions.layer, LedgerFigures.layer).pipe(
  Layer.provideMerge(PostgresLedger)
)

const detail = (id: OperationId) => OperationSearch.use((search) => search.detail(id))

const encode = Schema.encodeSync(OperatorDetail)

layer(Search, { excludeTestServices: true })("an operation in the view of operators", (it) => {
  it.effect("has its public form, its parties, its schedule and its history in each state, and no payload", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const search = yield* OperationSearch
      const issued = yield* issueAtNewProvider()
      const { grant } = issued
      for (const state of specifiedStates) {
        const operation = yield* queued(issued, state)
        const seen = yield* detail(operation.id)
        assert.deepStrictEqual(seen.operation, operation)
        assert.deepStrictEqual(seen.history, yield* ledger.history(operation.id))
        assert.deepInclude({ ...seen }, {
          client_id: grant.client_id,
          resource_owner: grant.resource_owner,
          subject: grant.subject,
          grant_id: grant.grant_id,
          provider: grant.provider,
          provider_connection_id: grant.provider_connection_id
        })
        assert.deepStrictEqual(seen.scopes, grant.scopes)
        const { due_in, send_before_in } = yield* inspect(operation.id)
        const { due_at, send_before } = seen.schedule
        assert.strictEqual(due_at === null, due_in === null, state)
        if (due_at !== null) isAbout(due_at.epochMilliseconds - Date.now(), Duration.millis(due_in!))
        assert.strictEqual(send_before === null, send_before_in === null, state)
        assert.strictEqual(seen.next.by === "none", operation.terminal)
        assert.notMatch(JSON.stringify(encode(seen)), /amount|10\.00\\?"/)
        const [summary, ...others] = yield* search.find(operation.id)
        assert.isEmpty(others)
        assert.deepStrictEqual({ ...summary!, next: seen.next }, {
          operation: seen.operation,
          client_id: seen.client_id,
          resource_owner: seen.resource_owner,
          provider: seen.provider,
          idempotency_key: seen.idempotency_key,
          reference: seen.reference,
          terms: null,
          schedule: seen.schedule,
          next: seen.next
        })
        Schema.encodeSync(OperatorSummary)(summary!)
      }
      const unknown = OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
      assert.strictEqual((yield* Effect.flip(detail(unknown)))._tag, "OperationNotFound")
    }))

  it.effect("has a claim that says until when it may be sent, and when it is taken over", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* Effect.all([accept(identity), accept(identity)])
      const claims = yield* queue.claim(provider, 2, claimTerms)
      const figures = Effect.map(
        LedgerFigures.use(({ nowByCondition }) => nowByCondition),
        ({ standing }) => standing.find((row) => row.provider === provider && row.condition === "submitting")!.claims!
      )
      const end = Math.max(...claims.map(({ operation }) => operation.send_before!.epochMilliseconds))
      const both = yield* figures
      assert.deepStrictEqual([both.count, both.lost, both.last_end!.epochMilliseconds], [2, 0, end])
      assert.isAtMost(both.first_end!.epochMilliseconds, end)
      assert.isAbove(both.next_at!.epochMilliseconds, end)
      for (const claim of claims) yield* queue.returnClaim(claim, { ...returnTerms, delay: Duration.seconds(5) })
      const none = yield* figures
      assert.deepStrictEqual({ ...none, next_at: null }, {
        count: 0,
        lost: 0,
        first_end: null,
        last_end: null,
        next_at: null
      })
      assert.isBelow(none.next_at!.epochMilliseconds, end)
      yield* accept(identity)
      yield* queue.claim(provider, 1, { ...claimTerms, send_within: Duration.zero })
      const { count, lost } = yield* figures
      assert.deepStrictEqual([count, lost], [0, 1])
    }))

  it.effect("is held and releasable as the queue says", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const hold = Effect.map(detail(id), ({ schedule }) => schedule.hold)
      assert.isNull(yield* hold)
      yield* failOver
      assert.deepStrictEqual(yield* hold, { kind: "failover", examined: false, releasable_from: null })
      yield* queue.hold(id)
      const both = { kind: "failover", by_operator: true } as const
      const unexamined = { ...both, examined: false, releasable_from: null }
      assert.deepStrictEqual(yield* hold, unexamined, "an operator's hold hides no failover")
      yield* queue.holdAll
      assert.deepStrictEqual(yield* hold, unexamined)
      assert.strictEqual((yield* detail(id)).next.by, "reconciler")
      const [read] = yield* queue.takeHeld(provider, 1, readTerms)
      const from = read!.operation.send_before!
      assert.deepStrictEqual(yield* hold, { ...both, examined: true, releasable_from: from })
      const early = yield* detail(id)
      assert.deepInclude({ ...early.next }, { by: "operator", at: from })
      yield* pass(readTerms.rescue_after)
      assert.isNull((yield* detail(id)).next.at)
      yield* queue.release(id)
      assert.isNull(yield* hold)
      yield* queue.report(id, late(reference("theirs")))
      yield* waitOut(provider)
      const acknowledged = yield* detail(id)
      assert.isTrue(acknowledged.acknowledged)
      assert.deepStrictEqual(acknowledged.schedule.hold, {
        kind: "placed",
        examined: true,
        releasable_from: null,
        by_operator: true
      })
      assert.include(acknowledged.next.reason, "never released")
    }))

  const questions = [
    { state: "accepted", condition: "unauthorized", take: claimIds, idle: claimTerms.idle },
    {
      state: "indeterminate",
      condition: "unread",
      take: (provider: ProviderName) => takeIds("takeReads", provider),
      idle: readTerms.idle
    }
  ] as const
  for (const { condition, idle, state, take } of questions) {
    for (const { lose, name, restore } of standingLosses) {
      it.effect(`waits, is listed and counted as ${condition} because ${name}, until its work goes on`, () =>
        Effect.gen(function*() {
          const search = yield* OperationSearch
          const issued = yield* issueAtNewProvider()
          const { provider } = issued.grant
          const { id } = yield* queued(issued, state)
          yield* pass("1 hour")
          const seen = Effect.gen(function*() {
            const { operations } = yield* search.list({
              queue: "waiting",
              states: [state],
              provider,
              order: "oldest",
              limit: 10
            })
            const { oldest, [condition]: counts } = yield* LedgerFigures.use(({ now }) => now)
            const count = counts.find((row) => row.provider === provider)?.count ?? 0
            const isOld = oldest.some((row) => row.provider === provider && row.condition === condition)
            assert.strictEqual(isOld, count > 0)
            const { schedule: { waiting } } = yield* detail(id)
            return { count, waiting, listed: operations.map(({ operation }) => operation.id) }
          })
          const goesOn = { count: 0, waiting: false, listed: [] }
          assert.deepStrictEqual(yield* seen, goesOn)
          assert.deepStrictEqual((yield* detail(id)).standing, {
            client_active: true,
            provider_connected: true,
            grant: "live",
            may_send: true,
            may_read: true
          })
          yield* lose(issued.grant)
          assert.deepStrictEqual(yield* take(provider), [])
          assert.deepStrictEqual(yield* seen, { count: 1, waiting: true, listed: [id] })
          assert.match((yield* detail(id)).next.reason, /inactive|disconnected|no live grant/)
          yield* restore(issued.grant)
          assert.include((yield* detail(id)).standing, { may_send: true, may_read: true })
          yield* pass(idle)
          assert.deepStrictEqual(yield* take(provider), [id])
          assert.deepStrictEqual(yield* seen, goesOn)
        }))
    }
  }

  it.effect("waits, and is keyless or unauthorized by what the last worker that found it due lacked", () =>
    Effect.gen(function*() {
      const keys: Keys = [{ id: "key", key: Redacted.make(new Uint8Array(32)) }]
      const [{ lose, restore }] = standingLosses
      const claim = (provider: ProviderName) => Effect.andThen(pass(claimTerms.idle), claimIds(provider))
      const counts = (provider: ProviderName) =>
        Effect.map(LedgerFigures.use(({ now }) => now), (now) => {
          const seen = (["unauthorized", "keyless"] as const).map((condition) => {
            const count = now[condition].find((row) => row.provider === provider)?.count ?? 0
            assert.strictEqual(
              now.oldest.some((row) => row.provider === provider && row.condition === condition),
              count > 0
            )
            return count
          })
          return { unauthorized: seen[0], keyless: seen[1] }
        })

      const { grant, identity } = yield* issueAtNewProvider()
      const { provider } = grant
      const { operation: { id } } = yield* having(keys, accept(identity))
      assert.deepStrictEqual(yield* claim(provider), [])
      assert.deepStrictEqual(yield* counts(provider), { unauthorized: 0, keyless: 1 })
      yield* lose(grant)
      assert.deepStrictEqual(yield* having(keys, claim(provider)), [])
      assert.deepStrictEqual(yield* counts(provider), { unauthorized: 1, keyless: 0 })
      yield* restore(grant)
      assert.deepStrictEqual(yield* claim(provider), [])
      assert.deepStrictEqual(yield* counts(provider), { unauthorized: 0, keyless: 1 })
      assert.deepStrictEqual(yield* having(keys, claim(provider)), [id])
      assert.deepStrictEqual(yield* counts(provider), { unauthorized: 0, keyless: 0 })

      // Plain text, where the workers have keys.
      const plain = yield* issueAtNewProvider()
      yield* accept(plain.identity)
      assert.deepStrictEqual(yield* having(keys, claim(plain.grant.provider)), [])
      assert.deepStrictEqual(yield* counts(plain.grant.provider), { unauthorized: 0, keyless: 1 })
    }))

  it.effect("is not to be cancelled while its claim is returned and the last worker that found it due lacked its key", () =>
    Effect.gen(function*() {
      const keys: Keys = [{ id: "key", key: Redacted.make(new Uint8Array(32)) }]
      const [{ lose, restore }] = standingLosses
      const { grant, identity } = yield* issueAtNewProvider()
      const { provider } = grant
      const { operation: { id } } = yield* having(keys, accept(identity))
      const isKeyless = Effect.map(detail(id), ({ next }) => next.reason.includes("give them the key"))
      const returns = (take: "claim" | "claimReturned") =>
        having(
          keys,
          Effect.flatMap(Queue, (queue) =>
            Effect.flatMap(queue[take](provider, 1, claimTerms), ([claim]) =>
              queue.returnClaim(claim!, returnTerms)))
        )
      const takesNone = Effect.andThen(pass("1 hour"), takeOverIds(provider))
      // A worker puts it off before the claim, too.
      assert.deepStrictEqual(yield* claimIds(provider), [])
      yield* pass("1 hour")
      yield* returns("claim")
      assert.isFalse(yield* isKeyless)
      assert.deepStrictEqual(yield* takesNone, [])
      assert.isTrue(yield* isKeyless)
      yield* lose(grant)
      assert.deepStrictEqual(yield* takesNone, [])
      assert.isFalse(yield* isKeyless)
      yield* restore(grant)
      assert.deepStrictEqual(yield* takesNone, [])
      assert.isTrue(yield* isKeyless)
      yield* pass("1 hour")
      yield* returns("claimReturned")
      assert.isFalse(yield* isKeyless)
    }))

  it.effect("has an operator next while it has a question to its provider, in its present state alone", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const indeterminate = yield* queued(issued, "indeterminate")
      const { id } = indeterminate
      const question = "Did you pay 7?"
      const seen = Effect.gen(function*() {
        const search = yield* OperationSearch
        const { operations: [listed] } = yield* search.list({ provider, order: "oldest", limit: 1 })
        assert.deepStrictEqual(listed!.next, (yield* detail(id)).next)
        const figures = yield* LedgerFigures.use((figures) => figures.nowByCondition)
        const asked = figures.standing.find((row) => row.provider === provider && row.condition === "under_review")
          ?.question
        return { asked, next: listed!.next.action }
      })
      const unproven = { due_in: readTerms.lease, reference: null, answer: "not found", review: true }
      const postpone = (answer: { readonly question?: string | null; readonly answer?: string }) =>
        Effect.flatMap(Queue, (queue) => queue.postpone(id, indeterminate.revision, { ...unproven, ...answer }))
      const reads = { asked: null, next: "A reconciler reads its status (read 1)." }
      const asks = { asked: question, next: `Ask the provider, and record its answer: ${question}` }
      for (
        const [answer, shown] of [[{}, reads], [{ question }, asks], [{}, asks], [{ question: null }, reads]] as const
      ) {
        yield* postpone(answer)
        assert.deepStrictEqual(yield* seen, shown)
      }
      // The last read was not asked, because the settings name another account.
      const sent = "it was sent to the account first, and the settings name second"
      yield* postpone({ question, answer: `not asked, because ${sent}` })
      const back =
        `Set the address and the account back: ${sent}. Or ask the provider, and record its answer: ${question}`
      assert.deepStrictEqual(yield* seen, { asked: question, next: back })
      const { standing } = yield* LedgerFigures.use((figures) => figures.nowByCondition)
      assert.include(standing.find((row) => row.provider === provider)?.answer, sent)
      yield* nextMillisecond
      yield* drive(indeterminate, ["submitted"])
      assert.deepStrictEqual(yield* seen, reads)
    }))

  it.effect("has a worker that stopped without a farewell until another process reports its worker id", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const sql = yield* SqlClient.SqlClient
      const worker_id = newKey()
      const report = (worker: string | null) => {
        const process_id = crypto.randomUUID()
        return Effect.as(
          queue.reportWorker({ process_id, worker_id: worker, pauses: {}, clock_skew_ms: null }),
          process_id
        )
      }
      const [lost, other, running] = [yield* report(worker_id), yield* report(null), yield* report(worker_id)]
      const seen = LedgerFigures.use(({ now }) =>
        Effect.map(now, ({ workers }) => {
          const ids = workers.map(({ process_id }) => process_id)
          return [lost, other, running].map((id) => ids.includes(id))
        })
      )
      assert.deepStrictEqual(yield* seen, [true, true, true], "two that run with one id are both shown")
      yield* sql`UPDATE worker_reports SET seen_at = now() - interval '31 seconds' WHERE process_id IN (${lost}, ${other})`
      yield* report(null)
      assert.deepStrictEqual(yield* seen, [true, true, true])
      yield* report(worker_id)
      assert.deepStrictEqual(yield* seen, [false, true, true])
    }))

  it.effect("says that its provider is paused while every worker that runs has paused it", () =>
    Effect.gen(function*() {
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const report = (pause: string | null) =>
        Effect.flatMap(Queue, (queue) => {
          const process_id = crypto.randomUUID()
          return queue.reportWorker({ process_id, worker_id: null, pauses: { [provider]: pause }, clock_skew_ms: null })
        })
      yield* report("of a lost worker")
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE worker_reports SET seen_at = now() - interval '31 seconds' WHERE pauses ? ${provider}`
      assert.strictEqual((yield* detail(id)).next.reason, "It is ready.")
      yield* report("status 401")
      assert.include((yield* detail(id)).next.reason, "Its provider is paused: status 401.")
      yield* report(null)
      assert.strictEqual((yield* detail(id)).next.reason, "It is ready.")
    }))

  it.effect("needs all scopes of its grant to be sent, and any live grant to be read", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      yield* Grants.use((grants) => grants.revoke(grant.grant_id))
      yield* Grants.use((grants) => grants.issue({ ...grant, scopes: [], expires_in: Duration.hours(1) }))
      assert.deepInclude({ ...(yield* detail(id)).standing }, { grant: "revoked", may_send: false, may_read: true })
    }))

  it.effect("has the reason of a returned claim, and the rescuer ends such a claim after a failover", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      yield* accept(identity)
      const [claim] = yield* queue.claim(provider, 1, { ...claimTerms, worker: "one" })
      const { id } = claim!.operation
      const claimed = yield* detail(id)
      assert.strictEqual(claimed.schedule.claimed_by, "one")
      assert.deepInclude({ ...claimed.next }, { by: "worker", at: null })
      assert.include(claimed.next.action, "Worker one has claimed it to send it.")
      yield* queue.returnClaim(claim!, returnTerms)
      const returned = yield* detail(id)
      assert.strictEqual(returned.schedule.return_reason, returnTerms.reason)
      assert.include(returned.next.reason, returnTerms.reason)
      assert.deepStrictEqual(returned.next.at, returned.schedule.due_at)
      yield* failOver
      assert.strictEqual((yield* detail(id)).next.by, "rescuer")
    }))

  it.effect("shows the latest 200 entries of its history, and of the actions on it alone, also the refused", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const actions = yield* OperatorActions
      const issued = yield* issueAtNewProvider()
      let operation = yield* queued(issued, "submitted")
      for (let n = 0; n < 210; n++) {
        operation = yield* ledger.transition(
          operation.id,
          operation.revision,
          outcome(n % 2 === 0 ? "indeterminate" : "submitted"),
          { n }
        )
        yield* actions.perform("review", operation.id, { name: `n-${n}`, via: "command", reason: null })
      }
      const ada = { name: "ada", via: "console", reason: "looks odd" } as const
      yield* actions.perform("review", (yield* accept(issued.identity)).operation.id, ada)
      const refused = yield* Effect.flip(actions.perform("hold", operation.id, ada))
      const { actions: acted, history } = yield* detail(operation.id)
      assert.deepStrictEqual(history, (yield* ledger.history(operation.id)).slice(-200))
      assert.deepStrictEqual(
        acted.map(({ action, operator, reason, result, via }) => [action, operator, via, reason, result]),
        [
          ...Array.from({ length: 199 }, (_, n) => ["review", `n-${n + 11}`, "command", null, "done"]),
          ["hold", "ada", "console", "looks odd", refused.message]
        ]
      )
    }))
})
