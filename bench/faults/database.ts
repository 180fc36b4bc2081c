/** The PostgreSQL of a scene: a primary, and a standby if the scene needs one. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Target } from "../../test/fixtures/processes/Proxy.ts"
import { poll, when } from "../../test/long/faults/kit/Clock.ts"
import { makePostgres, Platform, type Postgres } from "../../test/long/faults/kit/Postgres.ts"
import { patience } from "./processes.ts"

export interface DatabaseOptions {
  readonly directory: string
  /** An empty cluster of PostgreSQL, which is copied. */
  readonly template: string
  /** Directory of PostgreSQL's programs. */
  readonly programs: string
  readonly hasStandby: boolean
  readonly note: (what: string) => void
}

const query = <Row extends object>({ connection }: Postgres, text: string): Promise<ReadonlyArray<Row>> =>
  SqlClient.SqlClient.use((sql) => sql.unsafe<Row>(text).unprepared).pipe(
    Effect.provide(Layer.fresh(PgClient.layer({ ...connection, maxConnections: 1 }))),
    Effect.scoped,
    Effect.runPromise
  )

export class Database {
  private readonly options: DatabaseOptions
  private readonly scope = Effect.runSync(Scope.make())
  private primary: Postgres | null = null
  private standby: Postgres | null = null

  constructor(options: DatabaseOptions) {
    this.options = options
  }

  get target(): Target {
    return this.primary!.target
  }

  async start(): Promise<void> {
    this.primary = await this.server("primary", null)
    if (!this.options.hasStandby) return
    const { connection } = this.primary
    this.standby = await this.server("standby", {
      primary_conninfo: `host=${connection.host} port=${connection.port} user=${connection.username}`,
      wal_retrieve_retry_interval: "100ms"
    })
  }

  /** SIGKILL. `meanwhile` runs while it is down. */
  async restart(meanwhile: () => Promise<void>): Promise<void> {
    this.options.note("the database gets kill -9")
    await Effect.runPromise(this.primary!.kill)
    await meanwhile()
    await Effect.runPromise(this.primary!.crash)
    this.options.note("the database answers again")
  }

  /** From now on the standby gets no commit. It has those until now. */
  async detachStandby(): Promise<void> {
    const [primary, standby] = [this.primary!, this.standby!]
    const position = await query<{ lsn: string }>(primary, "SELECT pg_current_wal_lsn()::text AS lsn")
    const has = async () => {
      const text = `SELECT pg_last_wal_replay_lsn() >= '${position[0]!.lsn}' AS has`
      return when((await query<{ has: boolean }>(standby, text))[0]?.has === true)
    }
    if (await poll(patience, has) === null) throw new Error("the standby does not follow")
    await query(standby, "ALTER SYSTEM SET primary_conninfo = ''")
    await query(standby, "SELECT pg_reload_conf()")
    const isAlone = async () => when((await query(primary, "SELECT pid FROM pg_stat_replication")).length === 0)
    if (await poll(patience, isAlone) === null) throw new Error("the standby still follows")
    this.options.note("the standby gets no commits from now on")
  }

  /** The primary is lost, and the standby takes its place. */
  async promoteStandby(): Promise<void> {
    this.options.note("the primary is lost")
    await Effect.runPromise(this.primary!.kill)
    await query(this.standby!, "SELECT pg_promote()")
    this.primary = this.standby
    this.options.note("the standby is the primary")
  }

  close(): Promise<void> {
    return Effect.runPromise(Scope.close(this.scope, Exit.void))
  }

  /** A standby has its settings in a file, so that a statement can change them. */
  private server(name: string, standbySettings: Readonly<Record<string, string>> | null): Promise<Postgres> {
    const { directory, programs, template } = this.options
    const data = path.join(directory, name)
    const pgdata = path.join(data, "pgdata")
    fs.cpSync(template, data, { recursive: true })
    for (const one of [data, pgdata]) fs.chmodSync(one, 0o700)
    if (standbySettings !== null) {
      fs.writeFileSync(path.join(pgdata, "standby.signal"), "")
      const lines = Object.entries(standbySettings).map(([name, value]) => `${name} = '${value}'\n`)
      fs.appendFileSync(path.join(pgdata, "postgresql.auto.conf"), lines.join(""))
    }
    return makePostgres(data, { programs, settings: { shared_buffers: "32MB" }, isStandby: standbySettings !== null })
      .pipe(Effect.provideService(Scope.Scope, this.scope), Effect.provide(Platform), Effect.runPromise)
  }
}
