/**
 * A walk through the pages shows each earlier operation exactly once while others write. The tests walk PostgreSQL
 * beside a process that accepts and moves operations.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import type { Operation } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { accept, drive, everything, issue, outcome, PostgresLedger, walk } from "../../../fixtures/ledger/Ledger.ts"
import { anotherProcess } from "../../../fixtures/postgres/Pools.ts"

const steps = ["submitting", "indeterminate", "submitted", "succeeded"] as const

/** Accepts operations without end, and moves each of them and each existing one to a final state. */
const write = Effect.fnUntraced(function*(grant: GrantIdentity, present: Array<Operation>) {
  while (true) {
    const { operation } = yield* accept(grant)
    yield* drive(operation, steps)
    const next = present.pop()
    if (next !== undefined) yield* drive(next, steps)
  }
})

layer(PostgresLedger, { excludeTestServices: true })("a walk through the pages while others write", (it) => {
  for (const [name, filter] of [["of everything", {}], ["of a type", { type: "payment" }]] as const) {
    it.effect(`shows every earlier operation exactly once, in order: ${name}`, () =>
      Effect.gen(function*() {
        const { identity } = yield* issue()
        const accepted = yield* Effect.all(Array.from({ length: 42 }, () => accept(identity)), { concurrency: 8 })
        const before = accepted.map(({ operation }) => operation)
        const present = [...before]
        const writers = yield* Effect.forkChild(
          Effect.all(Array.from({ length: 6 }, () => write(identity, present)), { concurrency: "unbounded" }).pipe(
            Effect.provide(anotherProcess())
          )
        )
        // Until the last of them has moved, so that they change before, behind and under the walk.
        let walks = 0
        while (present.length > 0 || walks === 0) {
          walks++
          const seen = (yield* walk(identity, { ...everything, ...filter, page_size: 7 })).flat()
          const ids = seen.map(({ id }) => id)
          assert.strictEqual(new Set(ids).size, ids.length, "an operation was shown twice")
          const lost = before.filter(({ id }) => !ids.includes(id))
          assert.isEmpty(lost, "operations that existed before the walk were not shown")
          for (const [n, operation] of seen.slice(1).entries()) {
            const [newer, older] = [seen[n]!, operation].map(({ created_at, id }) => [created_at.epochMilliseconds, id])
            assert.isTrue(newer![0]! > older![0]! || (newer![0] === older![0] && newer![1]! > older![1]!))
          }
        }
        yield* Fiber.interrupt(writers)
      }))
  }

  it.effect("shows only pairs of state and revision that the operation had", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const store = yield* OperationStore
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const states = ["accepted", ...steps]
      const writer = yield* Effect.forkChild(
        Effect.gen(function*() {
          for (const [n, state] of steps.entries()) {
            yield* ledger.transition(operation.id, n + 1, outcome(state), { n })
          }
        }).pipe(Effect.provide(anotherProcess()))
      )
      let revision = 1
      while (revision < states.length) {
        const found = yield* store.find(identity, operation.id)
        const [listed] = (yield* store.list(identity, everything)).operations
        for (const seen of [found, listed!]) {
          assert.strictEqual(seen.state, states[seen.revision - 1])
          assert.isAtLeast(seen.revision, revision, "a read returned an older revision than the read before")
          revision = seen.revision
        }
      }
      yield* Fiber.join(writer)
    }))
})
