/** The console of operators in a process: its files, and the services of the ledger, which it calls as the writer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import type { AdminRoutes } from "../../operator/AdminServer.ts"
import { ConsoleAssets, loadAssets } from "../../operator/console/ConsoleAssets.ts"
import { consoleRoutes } from "../../operator/console/ConsoleRoutes.ts"
import type { ConsoleSettings } from "../../operator/console/ConsoleSettings.ts"
import { Approvals } from "../../services/Approvals.ts"
import { Grants } from "../../services/Grants.ts"
import { OperationFeed } from "../../services/OperationFeed.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { mayActAsOperator, OperatorActions } from "../../services/operators/OperatorActions.ts"
import { databaseAs } from "../postgres/DatabaseRoles.ts"
import { FiguresPool, ReaderPool, WriterPool } from "../postgres/Pools.ts"
import { layerPayloadKeys } from "./PayloadKeys.ts"

const RequiredRole = Layer.effectDiscard(Effect.gen(function*() {
  if (yield* mayActAsOperator) return
  return yield* new InvalidSetting({
    message:
      "the console needs a database role that may write, and every migration: set WRITER_DATABASE_URL, or DATABASE_URL, "
      + "to a writer (docs/postgresql.md)"
  })
}))

/** Fresh: a process that also serves the API has these services and pools for another role. */
const Ledger = Layer.mergeAll(
  Layer.mergeAll(OperationSearch.layer, OperatorActions.layer, Approvals.layer, Grants.layer, RequiredRole).pipe(
    Layer.provide([WriterPool, layerPayloadKeys])
  ),
  Layer.provide(LedgerFigures.layer, FiguresPool),
  Layer.provide(OperationFeed.layer, ReaderPool)
).pipe(Layer.fresh, Layer.provide(databaseAs("writer")))

const Assets = Layer.effect(ConsoleAssets, Effect.suspend(loadAssets))

/** The routes of the console, for `AdminListener.layer`. */
export const operatorConsole = (settings: ConsoleSettings) => {
  const { routes, ...more } = consoleRoutes(settings)
  return { ...more, routes: Layer.provide(routes, [Ledger, Assets]) } satisfies AdminRoutes<unknown, unknown>
}
