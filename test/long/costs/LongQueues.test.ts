/**
 * A client with a long queue does not delay other clients: claims take turns between clients. The tests check the
 * batches and their order in PostgreSQL and in memory.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import * as fc from "fast-check"
import type { ClientId, ProviderName } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { forAll } from "../../fixtures/forAll.ts"
import { settleAll } from "../../fixtures/ledger/FilledQueue.ts"
import {
  accept,
  identityOf,
  InMemoryLedger,
  issue,
  newClient,
  newProvider,
  PostgresFromMarks,
  PostgresLedger,
  queueConformance
} from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimIds, claimTerms, issueAtNewProvider, pass } from "../../fixtures/ledger/Queue.ts"

/** Grants of `count` new clients at one new provider. */
const issueToClients = (count: number) =>
  Effect.suspend(() => {
    const provider = newProvider()
    return Effect.forEach(Array.from({ length: count }), () => issueAtNewProvider({ provider }))
  })

queueConformance("a long queue of one client", (it) => {
  it.effect("does not delay another client: its operation is in the next batch, even if accepted last", () =>
    Effect.gen(function*() {
      const [long, short] = yield* issueToClients(2)
      const queue = yield* acceptSeveral(long!.identity, 40)
      const first = yield* claimIds(long!.grant.provider, 8)
      assert.sameMembers([...first], queue.slice(0, 8), "without others it takes every place")
      const [late] = yield* acceptSeveral(short!.identity, 1)
      const next = yield* claimIds(long!.grant.provider, 8)
      assert.sameMembers([...next], [late!, ...queue.slice(8, 15)], "it takes the places that others leave")
    }))

  it.effect("is claimed again, beside the others, after its client was reactivated", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const [back, other] = yield* issueToClients(2)
      const { client_id, provider } = back!.grant
      const first = yield* acceptSeveral(back!.identity, 6)
      yield* grants.setClientActive(client_id, false)
      assert.deepStrictEqual(yield* claimIds(provider, 10), [])
      yield* grants.setClientActive(client_id, true)
      const second = yield* acceptSeveral(other!.identity, 6)
      yield* pass(claimTerms.idle)
      const batch = yield* claimIds(provider, 6)
      assert.sameMembers([...batch], [...first.slice(0, 3), ...second.slice(0, 3)])
      assert.sameMembers([...yield* claimIds(provider, 10)], [...first.slice(3), ...second.slice(3)])
    }))
})

interface Run {
  /** For each operation in the order of acceptance, the number of its client. */
  readonly accepted: ReadonlyArray<number>
  readonly limit: number
  /** Clients that are deactivated before the first claim. */
  readonly inactive: ReadonlyArray<number>
}

const mostClients = 6

const runs: fc.Arbitrary<Run> = fc.record({
  accepted: fc.array(
    fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 3, arbitrary: fc.nat({ max: mostClients - 1 }) }),
    { minLength: 1, maxLength: 24 }
  ),
  limit: fc.constantFrom(1, 2, 3, 5, 8),
  inactive: fc.subarray([1, 2], { maxLength: 2 })
})

/** The batches of all claims until the queue is empty, as numbers of operations in the order of acceptance. */
const batchesOf = Effect.fnUntraced(
  function*({ accepted, inactive, limit }: Run, clients: ReadonlyArray<ClientId>, provider: ProviderName) {
    const grants = yield* Grants
    const issued = yield* Effect.forEach(
      clients,
      (client_id) => issue({ client_id, provider, expires_in: Duration.days(1) })
    )
    const ids: Array<OperationId> = []
    for (const client of accepted) {
      ids.push((yield* accept(identityOf(issued[client]!.grant))).operation.id)
      // Each operation is due in a millisecond of its own.
      yield* pass("1 second")
    }
    for (const client of inactive) yield* grants.setClientActive(clients[client]!, false)
    const batches: Array<ReadonlyArray<number>> = []
    while (true) {
      const batch = yield* claimIds(provider, limit)
      if (batch.length === 0) return batches
      batches.push(batch.map((id) => ids.indexOf(id)).toSorted((a, b) => a - b))
    }
  }
)

const assertFair = ({ accepted, inactive, limit }: Run, batches: ReadonlyArray<ReadonlyArray<number>>) => {
  const due = accepted.map((client, n) => ({ client, n })).filter(({ client }) => !inactive.includes(client))
  assert.sameMembers(batches.flat(), due.map(({ n }) => n), "all operations that may be sent are claimed")
  for (const batch of batches.slice(0, -1)) assert.lengthOf(batch, limit, "no place stays free while there is work")
  const clients = new Set(accepted).size
  for (let client = 0; client < mostClients; client++) {
    const own = due.filter((operation) => operation.client === client).map(({ n }) => n)
    const served = batches.map((batch) => batch.filter((n) => accepted[n] === client))
    assert.deepStrictEqual(served.flat(), own, "oldest first within a client")
    let left = own.length
    let pause = 0
    for (const { length } of served) {
      if (left === 0) break
      assert.isAtLeast(
        length,
        Math.min(left, Math.floor(limit / clients)),
        `client ${client} has its share of each batch`
      )
      pause = length > 0 ? 0 : pause + 1
      assert.isBelow(pause, Math.ceil(clients / limit), `client ${client} waits too long for its turn`)
      left -= length
    }
  }
}

for (const [search, Ledger] of [["", PostgresLedger], [", from marks", PostgresFromMarks]] as const) {
  layer(Ledger, { excludeTestServices: true })(`for any queues (in PostgreSQL${search}, and in memory)`, (it) => {
    it.effect("claims are the same, fill their batches, and skip no client", () =>
      forAll(runs, rounds(8, 40), (run) =>
        Effect.gen(function*() {
          const memory = yield* Layer.build(Layer.fresh(InMemoryLedger))
          const clients = Array.from({ length: mostClients }, newClient)
          const provider = newProvider()
          const expected = yield* Effect.provideContext(batchesOf(run, clients, provider), memory)
          assertFair(run, expected)
          assert.deepStrictEqual(yield* batchesOf(run, clients, provider), expected)
        }).pipe(Effect.ensuring(Effect.orDie(settleAll)), Effect.scoped)))
  })
}
