/**
 * Starts the embedded PostgreSQL in this process or in processes of its own, and observes the processes of PostgreSQL.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as readline from "node:readline"
import { openCluster } from "../../../src/node/embedded/Cluster.ts"
import { LocalPostgres, type LocalPostgresOptions } from "../../../src/node/embedded/LocalPostgres.ts"
import { copyLedgerTo } from "../../fixtures/postgres/OwnServer.ts"
import { programOf } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory as removedDirectory } from "../../fixtures/TemporaryDirectory.ts"
import { until } from "../../fixtures/until.ts"

/** Time limit of one test, in milliseconds: tests wait for conditions, never for a time. */
export const timeout = 60_000

/** A directory that is removed after the test. Fails the test if a process of PostgreSQL still uses it. */
export const temporaryDirectory = Effect.tap(
  removedDirectory,
  (directory) =>
    Effect.addFinalizer(() =>
      Effect.sync(() => assert.deepStrictEqual(processesOf(directory), [], "processes are still running"))
    )
)

/** A data directory with a database cluster, for tests that need not see how it is made. */
export const preparedDirectory = Effect.tap(
  temporaryDirectory,
  (directory) => Effect.flatMap(openCluster(directory), copyLedgerTo)
)

interface Process {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly command: string
}

const allProcesses = (): ReadonlyArray<Process> =>
  execFileSync("ps", ["-ww", "-A", "-o", "pid=,ppid=,pgid=,command="], { encoding: "utf8" }).split("\n").flatMap(
    (line) => {
      const [, pid, parent, group, command] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
      return command === undefined
        ? []
        : [{ pid: Number(pid), parent: Number(parent), group: Number(group), command }]
    }
  )

const processes = () => allProcesses().filter(({ command }) => !command.endsWith("<defunct>"))

/** PostgreSQL's processes on a data directory: `initdb`, the postmaster, and the postmaster's children. */
export const processesOf = (dataDirectory: string): ReadonlyArray<Process> => {
  const all = processes()
  const roots = all.filter(({ command }) => command.includes(dataDirectory))
  const pids = roots.map(({ pid }) => pid)
  return [...roots, ...all.filter(({ parent, pid }) => pids.includes(parent) && !pids.includes(pid))]
}

/** The main processes of the servers that run on a data directory. */
export const postmastersOf = (dataDirectory: string): ReadonlyArray<Process> =>
  processes().filter(({ command }) => command.includes(`-D ${dataDirectory}/pgdata `))

/** False for a zombie: a process that ended, whose parent has not yet read its exit status. */
export const isAlive = (pid: number): boolean => processes().some((process) => process.pid === pid)

/** Runs a LocalPostgres in this process until the test's scope closes. */
export const start = (options: LocalPostgresOptions) =>
  Layer.build(Layer.fresh(LocalPostgres.layer(options))).pipe(
    Effect.map((context) => Context.get(context, LocalPostgres))
  )

/** Runs SQL on a fresh connection and returns the rows. */
export const query = (server: Pick<LocalPostgres["Service"], "socketDirectory" | "database">, sql: string) =>
  PgConnection.make({ host: server.socketDirectory, username: "postgres", database: server.database }).pipe(
    Effect.flatMap((connection) => connection.query(sql, [], false)),
    Effect.map(({ rows }) => rows),
    Effect.scoped
  )

/** Asserts that the server answers on a fresh connection. */
export const assertAnswers = (server: Parameters<typeof query>[0]) =>
  Effect.map(query(server, "SELECT 1 AS one"), (rows) => assert.deepStrictEqual(rows, [{ one: 1 }]))

const Line = Schema.fromJsonString(Schema.Struct({
  socketDirectory: Schema.optionalKey(Schema.String),
  database: Schema.optionalKey(Schema.String),
  error: Schema.optionalKey(Schema.String)
}))

/** A LocalPostgres in a process of its own (`supervisor.ts`). It ends with the test's scope at the latest. */
export const spawnSupervisor = (options: LocalPostgresOptions, environment: Record<string, string> = {}) =>
  Effect.acquireRelease(
    Effect.map(programOf("test/long/embedded/supervisor.ts"), (program) => {
      const child = spawn(process.execPath, [program], {
        env: { ...process.env, ...environment, OPTIONS: JSON.stringify(options) },
        stdio: ["pipe", "pipe", "inherit"]
      })
      const lines = readline.createInterface({ input: child.stdout })
      const line = new Promise<string>((resolve) => lines.once("line", resolve).once("close", () => resolve("{}")))
      return new Supervisor(child, line)
    }),
    (supervisor) => supervisor.close
  )

/** A data directory, the supervisor that owns it, its server, and the process id of the server's postmaster. */
export const ownedDirectory = Effect.fnUntraced(function*(environment?: Record<string, string>) {
  const dataDirectory = yield* preparedDirectory
  const owner = yield* spawnSupervisor({ dataDirectory }, environment)
  const server = yield* owner.ready
  const [postmaster] = postmastersOf(dataDirectory)
  return { dataDirectory, owner, server, postmaster: postmaster!.pid }
})

class Supervisor {
  readonly child: ChildProcess
  readonly line: Promise<string>
  constructor(child: ChildProcess, line: Promise<string>) {
    this.child = child
    this.line = line
  }

  private readonly said = Effect.suspend(() => Effect.promise(() => this.line)).pipe(
    Effect.flatMap(Schema.decodeEffect(Line)),
    Effect.orDie
  )

  /** The server that the supervisor started or joined. Dies if the supervisor failed. */
  readonly ready = Effect.map(this.said, ({ database, error, socketDirectory }) => {
    assert.isUndefined(error)
    return { socketDirectory: String(socketDirectory), database: String(database) }
  })

  /** The error message of the supervisor. */
  readonly error = Effect.map(this.said, ({ error }) => String(error))

  private readonly ended = Effect.suspend(() =>
    until(() => this.child.exitCode !== null || this.child.signalCode !== null)
  )

  /** Closes the supervisor's scope, and waits until the process has ended. */
  readonly close = Effect.suspend(() => {
    this.child.stdin?.end()
    return this.ended
  })

  /** Kills the supervisor by SIGKILL: its finalizers do not run. */
  readonly kill = Effect.suspend(() => {
    this.child.kill("SIGKILL")
    return this.ended
  })
}
