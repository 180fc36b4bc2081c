/**
 * Several processes of one application finish their running requests: when their supervisor stops, and when it is killed.
 * The tests run the payments example with a ledger that accepts when the test says so.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { urlOf } from "../../fixtures/CommandLine.ts"
import { killAll, leftOf, treeOf } from "../../fixtures/Processes.ts"
import { failuresIn, getAlone, until } from "../../fixtures/ServingProcesses.ts"
import { createDatabase, Platform } from "../../fixtures/TestDatabase.ts"
import { direct, failing, pay, startPayments } from "../examples/paymentsProcess.ts"

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

/** Connections take turns, so some in a row reach both processes. */
const untilAllDrain = Effect.fnUntraced(function*(url: string) {
  let inRow = 0
  while (inRow < 6) inRow = (yield* getAlone(`${url}/readyz`)) === 503 ? inRow + 1 : 0
})

describe("A supervisor with processes", () => {
  it.live("on SIGTERM lets each process finish its requests, exits with 0, and leaves no process", () =>
    Effect.gen(function*() {
      const { answers, payments, release, tree } = yield* busyProcesses
      const exit = yield* Effect.forkChild(payments.stop("SIGTERM"))
      assert.lengthOf(tree, 3)
      // Neither process takes a request any more.
      yield* untilAllDrain(payments.url)
      yield* release
      assert.deepStrictEqual(yield* answers, [202, 202, 202, 202])
      assert.strictEqual(yield* Fiber.join(exit), 0)
      assert.deepStrictEqual(leftOf(tree), [])
    }).pipe(Effect.provide([Bank, Platform])))

  it.live("refuses a worker id, which would name several workers", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* failing({
        DATABASE_URL: urlOf(yield* createDatabase()),
        BANK_URL: "http://127.0.0.1:1",
        PROCESSES: "2",
        WORKER_ID: "worker-7"
      })
      assert.deepStrictEqual([code, failuresIn(stderr)], [
        1,
        ["error: WORKER_ID names the worker of one process: unset it, or set PROCESSES to 1"]
      ])
    }).pipe(Effect.provide(Platform)))

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
