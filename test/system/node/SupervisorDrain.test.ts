/**
 * Several processes of one application finish their running requests: when their supervisor stops, and when it is killed.
 * The tests run the payments example with a ledger that accepts when the test says so.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { urlOf } from "../../fixtures/CommandLine.ts"
import { killAll, leftOf, treeOf } from "../../fixtures/Processes.ts"
import { until } from "../../fixtures/ServingProcesses.ts"
import { createDatabase, Platform } from "../../fixtures/TestDatabase.ts"
import { direct, pay, startPayments } from "../examples/paymentsProcess.ts"

const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 1, succeeded_later: 0, failed_later: 0, rejected: 0, shortest_ms: 1, longest_ms: 2 }
})

/** Two processes, each with a running request. */
const busyProcesses = Effect.gen(function*() {
  const { url } = yield* Sandbox
  const payments = yield* startPayments(
    { DATABASE_URL: urlOf(yield* createDatabase()), BANK_URL: url, PROCESSES: "2" },
    direct("test/system/node/slowPayments.ts")
  )
  // Each process prints its invitation when it listens.
  yield* payments.prints(/(?:v1\/operations -H [^]*){2}/)
  const tree = treeOf(payments.pid)
  yield* Effect.addFinalizer(() => Effect.sync(() => killAll(tree)))
  const running = yield* Effect.forEach(["a", "b", "c", "d"], (key) => Effect.forkChild(pay(payments, key)))
  yield* payments.prints(/a request waits in (\d+)\n[^]*a request waits in (?!\1\n)\d+\n/)
  const release = Effect.sync(() => {
    for (const pid of tree) if (pid !== payments.pid) process.kill(pid, "SIGUSR2")
  })
  /** Fails if a connection breaks. */
  const answers = Effect.map(Effect.forEach(running, Fiber.join), (all) => all.map(({ status }) => status))
  return { payments, tree, release, answers }
})

describe("A supervisor with processes", () => {
  it.live("on SIGTERM lets each process finish its requests, exits with 0, and leaves no process", () =>
    Effect.gen(function*() {
      const { answers, payments, release, tree } = yield* busyProcesses
      const exit = yield* Effect.forkChild(payments.stop("SIGTERM"))
      assert.lengthOf(tree, 3)
      yield* release
      assert.deepStrictEqual(yield* answers, [202, 202, 202, 202])
      assert.strictEqual(yield* Fiber.join(exit), 0)
      assert.deepStrictEqual(leftOf(tree), [])
    }).pipe(Effect.provide([Bank, Platform])))

  it.live("that is killed leaves processes that finish their requests, and then end", () =>
    Effect.gen(function*() {
      const { answers, payments, release, tree } = yield* busyProcesses
      assert.strictEqual(yield* payments.stop("SIGKILL"), "SIGKILL")
      assert.deepStrictEqual(leftOf(tree).length, 2)
      yield* release
      assert.deepStrictEqual(yield* answers, [202, 202, 202, 202])
      yield* until(() => leftOf(tree).length === 0)
    }).pipe(Effect.provide([Bank, Platform])))
})
