/**
 * Frees the answered statements of a session whose statements share the connection.
 *
 * Workaround for @effect/sql-pg 4.0.5, `PgConnection.ts`: `finishPipelineEntry` empties `pipelineInFlight` only when every statement in it
 * is answered. `forgetAnswered.test.ts` fails once the driver frees each statement.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"

/** The driver's queue of statements on the wire. Its types do not show it. Those before `pipelineHead` are answered. */
interface Pipeline {
  readonly pipelineInFlight: Array<unknown>
  pipelineHead: number
}

const hasPipeline = (session: object): session is Pipeline =>
  "pipelineInFlight" in session && Array.isArray(session.pipelineInFlight)
  && "pipelineHead" in session && typeof session.pipelineHead === "number"

/** Answered statements for which the queue may have room. */
const maxAnswered = 64

/**
 * The driver empties its queue only when no statement is on the wire. Under load there always is one: the queue then keeps
 * each statement with all its rows, without limit. Call this before each statement. A driver without such a queue stays unchanged.
 */
export const forgetAnswered = (session: PgConnection.PgConnection): void => {
  if (!hasPipeline(session)) return
  const { pipelineHead, pipelineInFlight } = session
  // The driver never looks at a place before the head.
  for (let at = pipelineHead - 1; at >= 0 && pipelineInFlight[at] !== undefined; at--) pipelineInFlight[at] = undefined
  if (pipelineHead < maxAnswered) return
  pipelineInFlight.splice(0, pipelineHead)
  session.pipelineHead = 0
}
