/**
 * The reads that the tools of agents use. The gateway implements them for the grant of the current request
 * (`server/agents/GrantReads`), and the stdio server by requests to a gateway (`mcp/RemoteReads`).
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ChangesQuery, GrantLimits, ListQuery, OperationChanges, OperationList } from "../api/OperationsApi.ts"
import { problemKinds } from "../api/ProblemKinds.ts"
import type { Operation, OperationId } from "../domain/Operation.ts"

/** The gateway refused the read, or could not answer it. */
export class ReadRefused extends Schema.TaggedError<ReadRefused>()("ReadRefused", {
  /** A code of the problem catalogue. `gateway_unreachable`: no answer came, which only the stdio server reports. */
  code: Schema.Literals([
    ...Object.keys(problemKinds) as Array<keyof typeof problemKinds>,
    "gateway_unreachable"
  ]),
  /** What happened this time, in words of the gateway alone. */
  detail: Schema.String
}) {
  override get message() {
    return `${this.detail} (${this.code})`
  }
}

/**
 * Whether two forms of an operation differ. Everything but `under_review` is a function of the revision. After the ledger was put
 * back to an earlier state, a revision may have another state.
 */
export const differs = (a: Operation, b: Operation): boolean =>
  a.revision !== b.revision || a.state !== b.state || a.under_review !== b.under_review

/** Reads for one grant. Each checks the standing of the grant. */
export class AgentReads extends Context.Service<AgentReads, {
  /** One page, newest first. */
  readonly list: (query: ListQuery) => Effect.Effect<OperationList, ReadRefused>
  readonly get: (id: OperationId) => Effect.Effect<Operation, ReadRefused>
  /**
   * The operation once it differs from its known form, as these reads returned it, or as it is after `seconds`, up to 60, or earlier if
   * the gateway does not let the request wait. A change before the call counts as well, so a caller that passes what it read last
   * misses none.
   */
  readonly next: (known: Operation, seconds: number) => Effect.Effect<Operation, ReadRefused>
  /** A page of the change feed. It does not wait. */
  readonly changes: (query: ChangesQuery) => Effect.Effect<OperationChanges, ReadRefused>
  /** What remains of the limits of the grant and of its access token. */
  readonly limits: Effect.Effect<GrantLimits, ReadRefused>
}>()("financial-agents-gateway/mcp/AgentReads") {}
