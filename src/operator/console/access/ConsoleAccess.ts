/**
 * How operators get in: `OneTimeLinkAccess` or `OidcAccess` implements it, and adds its routes.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Notice } from "../noticePage.ts"

export class ConsoleAccess extends Context.Service<ConsoleAccess, {
  /** What a visitor without a session reads, who asked for a path of the console. */
  readonly notice: (path: string) => Effect.Effect<Notice>
}>()("financial-agents-gateway/operator/console/access/ConsoleAccess") {}
