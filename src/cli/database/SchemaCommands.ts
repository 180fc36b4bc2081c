/**
 * The room `cli/database`: commands on the schema, and what the commands of operators need of a database. Read this file first.
 *
 * `migrate` applies the migrations to a database. `roles` prints the SQL of the database roles, and connects to no database.
 * `switchover` holds the accepted operations, waits until a standby is promoted, and releases what it can prove.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { type BegunSwitchover, Switchover, type SwitchoverRound } from "../../cluster/Switchover.ts"
import type { ActingOperator } from "../../domain/operators/OperatorView.ts"
import { Database } from "../../node/postgres/Database.ts"
import { databaseAs } from "../../node/postgres/DatabaseRoles.ts"
import { PgAcceptanceSignal } from "../../node/postgres/PgAcceptanceSignal.ts"
import { MigrationPool, WriterPool } from "../../node/postgres/Pools.ts"
import { connectionLimits } from "../../node/postgres/poolSizes.ts"
import { layerPayloadKeys } from "../../node/process/PayloadKeys.ts"
import { Approvals } from "../../services/Approvals.ts"
import { GrantBlockers } from "../../services/GrantBlockers.ts"
import { Grants } from "../../services/Grants.ts"
import { applyMigrations, makeIsMigrated, migrate } from "../../services/Migrations.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { createRoles, defaultNaming, grantPrivileges, grantProofs, protectDatabase } from "../../services/sql/roles.ts"
import { actingFlags, actingOperator, Lifetime, textOr, toggle } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"

export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fn(function*() {
    const applied = yield* applyMigrations(({ name, number, total }) =>
      Effect.logInfo(`Applying migration ${number} of ${total}: ${name}`)
    )
    yield* print({ applied })
  }, Effect.provide(Layer.provide(MigrationPool, databaseAs("owner"))))
).pipe(Command.withDescription("Apply the missing migrations to the database"))

/** A name that needs no quotes, and that is short enough for PostgreSQL with the name of a role behind it. */
const Name = Schema.String.check(
  Schema.isPattern(/^[a-z_][a-z0-9_]{0,47}$/u, { expected: "a name of 1 to 48 characters a-z, 0-9 and _" })
)

const Processes = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: 1000 }, { expected: "a number of processes, from 1 to 1000" })
)

const prefix = textOr("prefix", "Prefix of the names of the roles", defaultNaming.prefix, Name)

const printScript = (statements: ReadonlyArray<string>) => Console.log(statements.join("\n"))

const create = Command.make(
  "create",
  {
    prefix,
    database: textOr("database", "Name of the database to create", "gateway", Name),
    processes: Flag.Int("processes").pipe(
      Flag.withDescription("Processes that connect as reader and provisioner, on all hosts: their CONNECTION LIMIT"),
      Flag.withDefault(1),
      Flag.withSchema(Processes)
    )
  },
  Effect.fn(function*({ database, prefix, processes }) {
    yield* printScript([
      ...createRoles(database, connectionLimits(processes), { prefix }),
      `\\connect ${database}`,
      ...protectDatabase({ prefix })
    ])
  })
).pipe(Command.withDescription("Print the SQL that creates the roles and the database. A superuser runs it once"))

const grant = Command.make(
  "grant",
  {
    prefix,
    proofs: toggle("proofs", "Let the reader role check DPoP proofs")
  },
  Effect.fn(function*({ prefix, proofs }) {
    const statements = [...grantPrivileges({ prefix }), ...proofs ? grantProofs({ prefix }) : []]
    yield* printScript(["BEGIN;", ...statements, "COMMIT;"])
  })
).pipe(
  Command.withDescription("Print the SQL that grants each role its privileges. The owner runs it after each migration")
)

export const roles = Command.make("roles").pipe(
  Command.withDescription("Print the SQL of the database roles"),
  Command.withSubcommands([create, grant]),
  Command.withExamples([
    { command: "financial-agents-gateway roles create | psql postgres", description: "A superuser runs it once" },
    {
      command: "financial-agents-gateway roles grant | psql gateway",
      description: "The owner runs it after each migration"
    }
  ])
)

/** Migrates an embedded database. Fails if another database lacks migrations, because its owner must apply them. */
const requireSchema = Effect.gen(function*() {
  const { isEmbedded } = yield* Database
  if (isEmbedded) return yield* Effect.asVoid(migrate)
  if (yield* yield* makeIsMigrated) return
  return yield* new CommandFailed({ message: "the database lacks migrations: run `financial-agents-gateway migrate`" })
}).pipe(Effect.provide(MigrationPool))

/** Checks the schema of the database before a command runs. */
export const RequiredSchema = Layer.effectDiscard(requireSchema)

/** The services of `approvals`, `grants`, `clients`, `providers`, `operations` and `switchover`, on the `WriterPool`. */
export const Administration = Layer.mergeAll(
  Approvals.layer,
  Grants.layer,
  GrantBlockers.layer,
  OperationLedger.layer,
  OperationSearch.layer,
  OperatorActions.layer,
  Switchover.layer,
  RequiredSchema
).pipe(
  Layer.provide(PgAcceptanceSignal),
  Layer.provide(layerPayloadKeys),
  Layer.provide(WriterPool),
  Layer.provide(databaseAs("writer"))
)

/** Between two rounds. Operations that are accepted after the last round have no hold. */
const interval = Duration.millis(200)

/** The holds outlast the command by this. Afterwards reconcilers examine the operations, as after a failover. */
const margin = Duration.minutes(10)

const eachSecond = (duration: Duration.Duration) => Schedule.spaced("1 second").pipe(Schedule.upTo({ duration }))

/** What the command has learnt while it waits. */
interface Waiting {
  last: SwitchoverRound | null
  isPromoted: boolean
}

/** Rounds until the timeline changes. Without a primary it tries again: that is what a switchover looks like. */
const untilPromoted = (begun: BegunSwitchover, waiting: Waiting) =>
  Switchover.use(({ round }) => round(begun)).pipe(
    Effect.map((now) => {
      waiting.isPromoted = now.timeline !== begun.timeline
      if (!waiting.isPromoted) waiting.last = now
      return waiting.isPromoted
    }),
    Effect.catchTag("StoreUnavailable", () => Effect.succeed(false)),
    Effect.repeat({ until: (isPromoted) => isPromoted, schedule: Schedule.spaced(interval) })
  )

const finish = (begun: BegunSwitchover, waiting: Waiting, operator: ActingOperator) =>
  Switchover.use((service) => service.finish(begun, waiting.last, operator))

export const switchover = Command.make(
  "switchover",
  {
    drainTimeout: textOr("drain-timeout", "How long to wait until no worker reports itself any more", "60s", Lifetime),
    promoteWithin: textOr("promote-within", "How long to wait for the promotion", "10m", Lifetime),
    ...actingFlags
  },
  Effect.fn(function*({ drainTimeout, promoteWithin, ...acting }) {
    const service = yield* Switchover
    const operator = actingOperator(acting)
    const begun = yield* service.begin(operator, Duration.sum(promoteWithin, margin)).pipe(
      Effect.retry({
        while: (error) => error._tag === "WorkersRunning",
        schedule: eachSecond(drainTimeout)
      })
    )
    const waiting: Waiting = { last: null, isPromoted: false }
    yield* Console.error(
      `Held ${begun.held} operations on timeline ${begun.timeline}. Promote the standby now. No worker claims before this `
        + "command ends."
    )
    // A signal, too, takes the holds back, unless the database is gone.
    const takeBack = Effect.timeoutOption(finish(begun, waiting, operator), "10 seconds")
    yield* untilPromoted(begun, waiting).pipe(
      Effect.timeoutOption(promoteWithin),
      Effect.onInterrupt(() => Effect.ignoreCause(takeBack))
    )
    if (!waiting.isPromoted) {
      const { released } = yield* finish(begun, waiting, operator)
      return yield* new CommandFailed({
        message:
          `the timeline is ${begun.timeline} as before: no standby was promoted. ${released} operations were released again`
      })
    }
    // The new primary may not answer each statement yet.
    const finished = yield* Effect.retry(finish(begun, waiting, operator), {
      while: (error) => error._tag === "StoreUnavailable",
      schedule: eachSecond(Duration.minutes(1))
    })
    if (finished.still_held > 0) {
      yield* Console.error(
        `${finished.still_held} operations stay held. See them: \`operations list --held\`. Status reads settle them, or \`operations `
          + "release ID` after you asked the provider."
      )
    }
    yield* print({ from_timeline: begun.timeline, held: begun.held, ...finished })
  })
).pipe(
  Command.withDescription(
    "Prepare a planned switchover of the database, wait for it, and release what was held for it. Stop all workers first. The "
      + "command releases nothing unless the new primary has what the old one acknowledged"
  ),
  Command.withShortDescription("Hold operations for a planned switchover, and release them after it"),
  Command.withExamples([
    {
      command: "financial-agents-gateway switchover --reason 'kernel of db1'",
      description: "In a second terminal, promote the standby as soon as the command says so"
    }
  ])
)
