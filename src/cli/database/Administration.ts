/**
 * The services of the administrative commands, and the check of the database schema.
 *
 * The room `cli/database`: commands on the schema, and what the commands of operators need of a database. Read this file first.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Switchover } from "../../cluster/Switchover.ts"
import { Database } from "../../node/postgres/Database.ts"
import { PgAcceptanceSignal } from "../../node/postgres/PgAcceptanceSignal.ts"
import { MigrationPool, WriterPool } from "../../node/postgres/Pools.ts"
import { layerPayloadKeys } from "../../node/process/PayloadKeys.ts"
import { Approvals } from "../../services/Approvals.ts"
import { GrantBlockers } from "../../services/GrantBlockers.ts"
import { Grants } from "../../services/Grants.ts"
import { makeIsMigrated, migrate } from "../../services/Migrations.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { CommandFailed } from "../Output.ts"

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
  Layer.provide(WriterPool)
)
