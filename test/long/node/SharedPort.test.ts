/**
 * Independent processes listen on one port with REUSE_PORT: all serve, one that drains leaves new connections to the others,
 * and the death of one leaves the others serving. The tests start real processes and end them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { direct, pay, type PaymentsProcess, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, result, run, type Running, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { getAlone, listenersOn } from "../../fixtures/processes/ServingProcesses.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"
import { until } from "../../fixtures/until.ts"

const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 1, succeeded_later: 0, failed_later: 0, rejected: 0, shortest_ms: 1, longest_ms: 2 }
})

const environment = Effect.gen(function*() {
  const port = yield* freePort
  const env = { DATABASE_URL: urlOf(yield* createDatabase()), PORT: String(port), REUSE_PORT: "true" }
  return { port, env, url: `http://127.0.0.1:${port}` }
})

/** A process logs each problem that it answers. */
const refusals = ({ output }: Running) => output.stderr.split("\"Request refused\"").length - 1

/** A process of `slowPayments` prints a line for each request that waits. */
const waits = ({ printed }: PaymentsProcess) => printed().split("a request waits").length - 1

/** A read on a new connection. A dying process resets those that it has not accepted, until the kernel has ended its socket. */
const readAlone = (url: string) => Effect.retry(getAlone(url), { while: ({ code }) => code === "ECONNRESET" })

/** Reads on new connections until each of the processes has answered once more. */
const untilAllAnswer = Effect.fnUntraced(function*(url: string, processes: ReadonlyArray<Running>) {
  const before = processes.map(refusals)
  while (processes.some((process, at) => refusals(process) === before[at])) yield* readAlone(`${url}/nowhere`)
})

/**
 * A read without a token, which is 401 without the database. A client may repeat an idempotent request if its connection breaks
 * (RFC 9110 §9.2.2), or once if its answer is 503. It does not repeat one whose connection is refused: no process listens then.
 */
const read = (url: string) => {
  const once = readAlone(`${url}/v1/operations`)
  return Effect.flatMap(once, (status) => status === 503 ? once : Effect.succeed(status))
}

/** Eight clients read until the body ends, and before and after it. Returns the statuses of all their reads. */
const whileReading = Effect.fnUntraced(function*<A, E, R>(url: string, body: Effect.Effect<A, E, R>) {
  const statuses: Array<number | undefined> = []
  const client = Effect.forever(Effect.map(read(url), (status) => statuses.push(status)))
  const clients = Effect.all(Array.from({ length: 8 }, () => client), { concurrency: "unbounded" })
  const more = Effect.suspend(() => {
    const enough = statuses.length + 50
    return until(() => statuses.length >= enough)
  })
  // The clients end only by a failure.
  yield* Effect.raceFirst(Effect.andThen(Effect.andThen(more, body), more), clients)
  return [...new Set(statuses)]
})

describe.runIf(process.platform === "linux")("Processes that share a port", () => {
  it.live("all serve, and no read fails while each of them is restarted in turn, and then one is killed", () =>
    Effect.gen(function*() {
      const { env, port, url } = yield* environment
      const processes = [yield* serve([], env), yield* serve(["--reuse-port"], env)]
      yield* untilAllAnswer(url, processes)
      const restart = Effect.fnUntraced(function*(at: number) {
        assert.strictEqual(yield* processes[at]!.stop("SIGTERM"), 0)
        assert.strictEqual(listenersOn(port), 1)
        processes[at] = yield* serve([], env)
        yield* untilAllAnswer(url, processes)
      })
      assert.deepStrictEqual(yield* whileReading(url, Effect.forEach([0, 1], restart)), [401])
      const [killed, other] = processes as [Running, Running]
      const kill = Effect.andThen(killed.stop("SIGKILL"), untilAllAnswer(url, [other]))
      assert.deepStrictEqual(yield* whileReading(url, kill), [401])

      // They share it only with processes that do the same.
      const { code, stderr } = yield* run(["serve"], { ...env, REUSE_PORT: "false" })
      assert.strictEqual(code, 1)
      assert.include(
        stderr,
        `error: cannot listen on 127.0.0.1:${port}: another process uses the port. Set PORT to a free port`
      )
    }).pipe(Effect.provide(Platform)))

  it.live("get no new connection from the start of their drain on, while they finish their requests", () =>
    Effect.gen(function*() {
      const { env, port } = yield* environment
      const { url: bank } = yield* Sandbox
      const start = startPayments({ ...env, BANK_URL: bank }, direct("test/system/node/slowPayments.ts"))
      const [draining, other] = [yield* start, yield* start]
      // Each on a connection of its own, of which the kernel gives each process a share.
      const payments = yield* Effect.forEach(
        Array.from({ length: 32 }, (_, at) => `rent-${at}`),
        (key) => Effect.forkChild(pay(draining, key))
      )
      yield* Effect.all([draining.prints(/a request waits/), other.prints(/a request waits/)])
      // A connection that its process has not accepted yet is reset when the process ends listening.
      yield* until(() => waits(draining) + waits(other) === payments.length)
      const exit = yield* Effect.forkChild(draining.stop("SIGTERM"))
      yield* until(() => listenersOn(port) === 1)
      const statuses = yield* Effect.forEach(Array.from({ length: 20 }), () => getAlone(`${other.url}/v1/operations`))
      assert.deepStrictEqual([...new Set(statuses)], [401])
      for (const { pid } of [draining, other]) process.kill(pid, "SIGUSR2")
      const answers = yield* Effect.forEach(payments, Fiber.join)
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [202])
      assert.strictEqual(yield* Fiber.join(exit), 0)
    }).pipe(Effect.provide([Bank, Platform])))

  it.live("share an embedded PostgreSQL: another process, without a demo beside other operations, takes it over from its owner", () =>
    Effect.gen(function*() {
      const DATA_DIR = yield* temporaryDirectory
      const port = yield* freePort
      const env = { DATA_DIR, PORT: String(port), REUSE_PORT: "true" }
      const url = `http://127.0.0.1:${port}`
      const owner = yield* serve([], env)
      // The owner of the demo, with an operation that is not of the demo.
      const names = ["--owner", "demo-owner", "--subject", "demo-subject", "--client", "demo-agent"]
      const { grant_id } = yield* result<{ readonly grant_id: string }>(["grants", "issue", ...names], env)
      const request = ["--grant", grant_id, "--type", "payment", "--key", "demo-1", "--payload", "{}"]
      yield* result(["operations", "accept", ...request], env)
      const guest = yield* serve(["--demo"], env)
      assert.notMatch(guest.output.stdout, /curl|fingw_/)
      assert.include(guest.output.stdout, "npm run -s gateway -- grants issue --owner OWNER")
      yield* untilAllAnswer(url, [owner, guest])
      assert.strictEqual(yield* owner.stop("SIGTERM"), 0)
      yield* Effect.repeat(getAlone(`${url}/readyz`), { until: (status) => status === 200 })
      assert.strictEqual(yield* guest.stop("SIGTERM"), 0)
      assert.isFalse(fs.existsSync(path.join(DATA_DIR, "pgdata", "postmaster.pid")), "PostgreSQL is stopped")
    }))
})
