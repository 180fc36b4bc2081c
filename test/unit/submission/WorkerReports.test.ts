/**
 * What runs beside worker and reconciler: reports of the process and its pauses, marks of the changes, folds of the counts. No failure of one
 * disturbs the process, and none delays its stop.
 */
import { assert, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import { TestClock } from "effect/testing"
import { ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import type { WorkerReport } from "../../../src/domain/operators/FiguresForm.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { Maintenance } from "../../../src/services/queue/Maintenance.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { layerCircuitBreaker } from "../../../src/submission/providers/Circuit.ts"
import { NotSent } from "../../../src/submission/providers/ProviderAdapter.ts"
import { ProviderPauses } from "../../../src/submission/providers/ProviderPauses.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { defaultPolicy, SubmissionPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import { layerMaintenance } from "../../../src/submission/SubmissionProcesses.ts"
import * as WorkerReports from "../../../src/submission/WorkerReports.ts"
import { unknownId } from "../../fixtures/ledger/Ledger.ts"
import { type Queue, queueWith } from "../../fixtures/ledger/QueueServices.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { acknowledged, until } from "../../fixtures/submission/World.ts"

const bank = ProviderName.make("bank")

type Reporting = Pick<Queue, "reportWorker" | "forgetWorker">

/** Starts the reports of a process with one provider. `stop` closes its scope. */
const start = Effect.fnUntraced(function*(reporting: Reporting) {
  const scope = yield* Scope.make()
  const queue = queueWith(() => reporting).pipe(
    Layer.provide(SubmissionQueue.layerMemory),
    Layer.provide([MemoryLedger.layer, Platform])
  )
  const context = yield* Layer.buildWithScope(
    WorkerReports.layer.pipe(
      Layer.provide(queue),
      // No report calls the adapter.
      Layer.provide(Layer.succeed(Providers, new Map([[bank, null as never]]))),
      Layer.provide(Layer.succeed(SubmissionPolicy, { ...defaultPolicy, workerId: "first" })),
      Layer.provideMerge([layerCircuitBreaker, ProviderPauses.layer])
    ),
    scope
  )
  const breaker = Context.get(context, CircuitBreaker.CircuitBreaker)
  const pauses = Context.get(context, ProviderPauses)
  return { breaker, pauses, stop: Scope.close(scope, Exit.void) }
})

/** Reports that are kept, as the table does. */
const kept = () => {
  const reports: Array<WorkerReport> = []
  const forgotten: Array<string> = []
  return {
    reports,
    forgotten,
    reportWorker: (report: WorkerReport) => Effect.sync(() => void reports.push(report)),
    forgetWorker: (id: string) => Effect.sync(() => void forgotten.push(id))
  }
}

/** Five failures in a row open the circuit. */
const openCircuit = (breaker: CircuitBreaker.CircuitBreaker) =>
  Effect.repeat(Effect.exit(breaker.execute(Effect.fail("refused"), { key: bank })), { times: 4 })

it.effect("A process reports itself at once and every ten seconds, and removes its report when it stops", () =>
  Effect.gen(function*() {
    const table = kept()
    const { stop } = yield* start(table)
    yield* TestClock.adjust("25 seconds")
    assert.lengthOf(table.reports, 3)
    const [{ process_id }] = table.reports as [WorkerReport]
    for (const report of table.reports) {
      assert.deepStrictEqual(report, {
        process_id,
        worker_id: "first",
        pauses: { [bank]: null },
        clock_skew_ms: 0
      })
    }
    yield* stop
    assert.deepStrictEqual(table.forgotten, [process_id])
    yield* TestClock.adjust("25 seconds")
    assert.lengthOf(table.reports, 3)
  }))

it.effect("A process reports why a provider is paused as soon as that changes: a circuit or a local failure", () =>
  Effect.gen(function*() {
    const table = kept()
    const { breaker, pauses, stop } = yield* start(table)
    const operation = { id: unknownId, resource_owner: ResourceOwner.make("owner-1") }
    yield* TestClock.adjust(1)
    const refused = new NotSent({ reason: "the connection was refused (ECONNREFUSED): bank:4999" })
    yield* pauses.observe(bank, null, Exit.fail(refused), operation)
    yield* openCircuit(breaker)
    yield* until(() => table.reports.length === 2)
    yield* pauses.fail(bank, null, "status 401")
    yield* until(() => table.reports.length === 3)
    assert.deepStrictEqual(table.reports.map(({ pauses }) => pauses[bank]), [
      null,
      `it did not answer several times in a row, so its circuit is open: ${refused.reason}`,
      "status 401"
    ])
    yield* TestClock.adjust("9 seconds")
    yield* breaker.execute(Effect.void, { key: bank })
    const { probeOf } = yield* pauses.admit(bank, 1)
    yield* pauses.observe(bank, probeOf, Exit.succeed(acknowledged), operation)
    yield* until(() => table.reports.at(-1)!.pauses[bank] === null)
    yield* stop
  }))

it.effect("A process whose reports fail logs that once, and tries again", () =>
  Effect.gen(function*() {
    const logs: Array<unknown> = []
    const logger = Logger.layer([Logger.make(({ message }) => void logs.push(message))])
    const table = kept()
    let isDown = true
    const unavailable = new StoreUnavailable({ cause: new Error("the database is gone") })
    const reportWorker = (report: WorkerReport) =>
      Effect.suspend(() => isDown ? Effect.fail(unavailable) : table.reportWorker(report))
    yield* Effect.gen(function*() {
      const { stop } = yield* start({ ...table, reportWorker })
      yield* TestClock.adjust("35 seconds")
      assert.lengthOf(logs, 1)
      isDown = false
      yield* TestClock.adjust("10 seconds")
      assert.lengthOf(table.reports, 1)
      isDown = true
      yield* TestClock.adjust("20 seconds")
      assert.lengthOf(logs, 2)
      yield* stop
    }).pipe(Effect.provide(logger))
  }))

it.effect("A report that is under way at the stop is removed after it has ended", () =>
  Effect.gen(function*() {
    const table = kept()
    const answered = yield* Deferred.make<void>()
    const order: Array<string> = []
    const { stop } = yield* start({
      reportWorker: () => Effect.andThen(Deferred.await(answered), Effect.sync(() => void order.push("reported"))),
      forgetWorker: (id) => Effect.andThen(table.forgetWorker(id), Effect.sync(() => void order.push("removed")))
    })
    yield* TestClock.adjust(1)
    const stopping = yield* Effect.forkChild(stop)
    yield* TestClock.adjust(1)
    assert.deepStrictEqual(order, [])
    yield* Deferred.succeed(answered, undefined)
    yield* Fiber.join(stopping)
    assert.deepStrictEqual(order, ["reported", "removed"])
  }))

it.effect("The stop of a process waits a second at most for statements that hang", () =>
  Effect.gen(function*() {
    const hanging = () => Effect.uninterruptible(Effect.never)
    const { stop } = yield* start({ reportWorker: hanging, forgetWorker: hanging })
    yield* TestClock.adjust(1)
    const stopping = yield* Effect.forkChild(stop)
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(stopping)
  }))

/** Starts the loops. The cast: they call nothing else. */
const startLoops = Effect.fnUntraced(function*(statements: Pick<Maintenance["Service"], "markChanges" | "foldCounts">) {
  const scope = yield* Scope.make()
  const maintenance = Layer.succeed(Maintenance, statements as unknown as Maintenance["Service"])
  yield* Layer.buildWithScope(Layer.provide(layerMaintenance, maintenance), scope)
  return Scope.close(scope, Exit.void)
})

it.effect("The loops run at once and every one or five seconds, also after a failure, until their scope closes", () =>
  Effect.gen(function*() {
    const runs = { marks: 0, folds: 0 }
    const away = Effect.fail(new StoreUnavailable({ cause: new Error("the database is gone") }))
    const stop = yield* startLoops({
      markChanges: Effect.sync(() => void runs.marks++),
      foldCounts: Effect.suspend(() => ++runs.folds === 2 ? away : Effect.void)
    })
    yield* TestClock.adjust("15 seconds")
    assert.deepStrictEqual(runs, { marks: 16, folds: 4 })
    yield* stop
    yield* TestClock.adjust("15 seconds")
    assert.deepStrictEqual(runs, { marks: 16, folds: 4 })
  }))

it.effect("The stop of a process does not wait for a statement that hangs", () =>
  Effect.gen(function*() {
    const hanging = Effect.uninterruptible(Effect.never)
    const stop = yield* startLoops({ markChanges: hanging, foldCounts: hanging })
    yield* TestClock.adjust(1)
    yield* stop
  }))
