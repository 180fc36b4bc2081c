/**
 * `serve --processes N` runs the gateway as several processes behind one port, and replaces those that die. The tests
 * start real processes and kill them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { freePort, run, serve, urlOf } from "../../fixtures/CommandLine.ts"
import { leftOf, treeOf } from "../../fixtures/Processes.ts"
import {
  connectTo,
  failuresIn,
  getAlone,
  logOf,
  serveProcesses,
  startedIn,
  until,
  untilAllAnswer
} from "../../fixtures/ServingProcesses.ts"
import { createDatabase, Platform } from "../../fixtures/TestDatabase.ts"

const environment = Effect.gen(function*() {
  const database = yield* createDatabase()
  const port = yield* freePort
  return { database, port, url: `http://127.0.0.1:${port}`, env: { DATABASE_URL: urlOf(database), PORT: String(port) } }
})

const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "gateway-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

/** The processes of the first start. */
const pidsOf = (running: Parameters<typeof startedIn>[0]) => [startedIn(running, 1)[0]!, startedIn(running, 2)[0]!]

describe("serve --processes", () => {
  it.live("answers from all processes, announces itself once, and names the process in each line of the log", () =>
    Effect.gen(function*() {
      const { env, url } = yield* environment
      const server = yield* serveProcesses(2, env)
      const pids = pidsOf(server)
      yield* untilAllAnswer(server, url, pids)
      assert.strictEqual(yield* getAlone(`${url}/readyz`), 200)
      const tree = treeOf(server.child.pid!)
      assert.deepStrictEqual(tree.toSorted(), [server.child.pid!, ...pids].toSorted())
      assert.strictEqual(yield* server.stop("SIGTERM"), 0)
      assert.deepStrictEqual(leftOf(tree), [])
      const log = logOf(server)
      assert.lengthOf(log.filter(({ message }) => message === "Listening"), 1)
      for (const { annotations } of log) assert.include([server.child.pid, ...pids], annotations.pid)
      const ends = log.filter(({ message }) => message === "Process ended")
      assert.sameDeepMembers(ends.map(({ annotations: { code, process_pid } }) => ({ code, process_pid })), [
        { code: 0, process_pid: pids[0] },
        { code: 0, process_pid: pids[1] }
      ])
    }).pipe(Effect.provide(Platform)))

  it.live("replaces a killed process, while the other one answers", () =>
    Effect.gen(function*() {
      const { env, url } = yield* environment
      const server = yield* serveProcesses(2, env)
      const [killed, other] = pidsOf(server)
      process.kill(killed!, "SIGKILL")
      const isEnd = ({ annotations }: ReturnType<typeof logOf>[number]) => annotations.signal === "SIGKILL"
      yield* until(() => logOf(server).some(isEnd))
      assert.strictEqual(yield* getAlone(`${url}/readyz`), 200)
      assert.deepInclude(logOf(server).find(isEnd)!.annotations, { process: 1, process_pid: killed })
      yield* until(() => startedIn(server, 1).length === 2)
      yield* untilAllAnswer(server, url, [startedIn(server, 1)[1]!, other!])
      assert.strictEqual(yield* server.stop("SIGINT"), 0)
    }).pipe(Effect.provide(Platform)))

  it.live("replaces a process that gets SIGTERM, without a broken or forgotten connection", () =>
    Effect.gen(function*() {
      const { env, url } = yield* environment
      const server = yield* serveProcesses(2, env)
      for (let drains = 0; drains < 4; drains++) {
        yield* untilAllAnswer(server, url, [startedIn(server, 1)[drains]!])
        process.kill(startedIn(server, 1)[drains]!, "SIGTERM")
        // Each fails the test if its connection breaks, and waits for ever if no process takes it.
        while (startedIn(server, 1).length === drains + 1) {
          yield* Effect.all(Array.from({ length: 8 }, () => getAlone(`${url}/healthz`)), { concurrency: "unbounded" })
        }
      }
    }).pipe(Effect.provide(Platform)))

  it.live("hands a stopped process one connection at most: its death leaves no other connection without an answer", () =>
    Effect.gen(function*() {
      const { env, port } = yield* environment
      const server = yield* serveProcesses(2, env)
      const [stopped] = pidsOf(server)
      process.kill(stopped!, "SIGSTOP")
      const connections = yield* Effect.all(Array.from({ length: 20 }, () => connectTo(port)))
      const count = (wanted: string) => connections.filter(({ state }) => state === wanted).length
      yield* until(() => count("answered") >= 19)
      process.kill(stopped!, "SIGKILL")
      yield* until(() => startedIn(server, 1).length === 2)
      assert.isAtLeast(count("answered"), 19)
      assert.strictEqual(count("closed"), 0)
    }).pipe(Effect.provide(Platform)))

  it.live("limits the connections of each process, and closes further ones", () =>
    Effect.gen(function*() {
      const { env, port } = yield* environment
      const server = yield* serveProcesses(2, { ...env, MAX_CONNECTIONS: "1" })
      const connections = []
      for (let at = 0; at < 3; at++) {
        const connection = yield* connectTo(port)
        connections.push(connection)
        yield* until(() => connection.state !== "waiting")
      }
      assert.deepStrictEqual(connections.map(({ state }) => state), ["answered", "answered", "closed"])
      assert.strictEqual(yield* server.stop("SIGTERM"), 0)
    }).pipe(Effect.provide(Platform)))

  it.live("waits longer after each quick death, and serves again when the deaths end", () =>
    Effect.gen(function*() {
      const { env, url } = yield* environment
      const server = yield* serveProcesses(2, env)
      for (let deaths = 0; deaths < 4; deaths++) {
        yield* until(() => startedIn(server, 1).length > deaths)
        process.kill(startedIn(server, 1)[deaths]!, "SIGKILL")
      }
      yield* until(() => startedIn(server, 1).length === 5)
      const delays = logOf(server).flatMap(({ annotations }) => annotations.restart_in_ms ?? [])
      // The first life may have been a long one.
      const [, second = 0, ...later] = delays
      assert.deepStrictEqual(later, [second * 2, second * 4])
      assert.strictEqual(yield* getAlone(`${url}/readyz`), 200)
      yield* untilAllAnswer(server, url, [startedIn(server, 1)[4]!])
    }).pipe(Effect.provide(Platform)))

  it.live("reports in one line what stops all processes, and exits with 1", () =>
    Effect.gen(function*() {
      const { env, port } = yield* environment
      const args = ["serve", "--processes", "2"]
      const missing = yield* run(args, { ...env, DATABASE_URL: urlOf("no_such_database") })
      assert.strictEqual(missing.code, 1)
      assert.match(missing.stderr, /^error: database error: [^\n]*no_such_database[^\n]*\n$/)
      yield* serve([], env)
      const taken = yield* run(args, env)
      assert.deepStrictEqual([taken.code, failuresIn(taken.stderr)], [
        1,
        [`error: cannot listen on 127.0.0.1:${port}: another process uses the port. Set PORT to a free port`]
      ])
    }).pipe(Effect.provide(Platform)))

  it.live("refuses a number that it cannot run, in one line", () =>
    Effect.gen(function*() {
      for (const processes of ["0", "65", "1.5", "many"]) {
        const { code, stderr } = yield* run(["serve"], { PROCESSES: processes })
        assert.strictEqual(code, 1)
        assert.match(
          stderr,
          /^error: Invalid value for flag --processes: "[^"]+"\. Expected a number of processes from 1 to 64, or auto,[^\n]+\n$/
        )
      }
    }))

  it.live("owns the embedded PostgreSQL: it outlives the processes, and one of them runs the demo", () =>
    Effect.gen(function*() {
      const env = { DATA_DIR: yield* temporaryDirectory, PORT: String(yield* freePort) }
      const server = yield* serve(["--demo", "--processes", "2"], env)
      assert.lengthOf([...server.output.stdout.matchAll(/grants revoke/g)], 1)
      const url = `http://127.0.0.1:${env.PORT}`
      for (const pid of pidsOf(server)) process.kill(pid, "SIGKILL")
      yield* until(() => startedIn(server, 1).length === 2 && startedIn(server, 2).length === 2)
      yield* until(() => [...server.output.stdout.matchAll(/grants revoke/g)].length === 2)
      assert.strictEqual(yield* getAlone(`${url}/readyz`), 200)
      assert.strictEqual(yield* server.stop("SIGTERM"), 0)
      assert.isFalse(fs.existsSync(path.join(env.DATA_DIR, "pgdata", "postmaster.pid")), "PostgreSQL is stopped")
    }))
})
