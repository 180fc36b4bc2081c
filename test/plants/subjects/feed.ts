/** Mistakes in the change feed and in waits: no change is skipped, and no wake-up is lost. */
import { long, type Plant, plant, postgres, system, unit } from "../Plant.ts"

const changeStatements = "src/services/sql/reads/changeStatements.ts"
const positions = "src/services/rules/changeToken.ts"
const migration = "migrations/0010_change_feed.sql"
const waits = "src/server/waits/Waits.ts"
const watcher = "src/server/waits/ChangeWatcher.ts"
const follower = "src/server/waits/ChangeFollower.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"

export const feed: ReadonlyArray<Plant> = [
  plant("a receiver that drops known ids misses no state of an operation", "examples/outbox/Webhook.ts")
    .edit(".${randomBytes(8).toString(\"hex\")}`", "`")
    .foundBy(system("examples/outboxDelivery", "has an id that no earlier state")),
  plant("the change feed refuses a grant that may not read", "src/services/sql/reads/SqlOperationFeed.ts")
    .edit(
      "const refused = refusalOf(grant, rows[0]?.[factAt.standing])",
      "const refused = rows[0] === undefined ? refusalOf(grant, undefined) : null"
    )
    .foundBy(postgres("services/reads/GrantStandings", "refuses each combination")),
  plant("a page of the feed never passes more running transactions than its token keeps", changeStatements)
    .edit("THEN l.ceiling - 1 ELSE r.after END", "THEN l.upcoming::bigint - 1 ELSE r.after END")
    .foundBy(long("costs/ChangeFeedCeiling")),
  plant("a token keeps every transaction that was running below its place", positions)
    .edit(
      "position > from.high.position && position < last.position)",
      "position > from.high.position && position < last.position && isWhole)"
    )
    .foundBy(unit("services/rules/ChangePosition")),
  plant("a token keeps an unfinished position until its transaction has finished", positions)
    .edit("running.has(position) || position >= unfinished.upcoming", "running.has(position)")
    .foundBy(unit("services/rules/ChangePosition")),
  plant("behind the ceiling of a page there is always more", positions)
    .edit("isWhole: page.isWhole && page.unfinished.running.length <= maxPending", "isWhole: page.isWhole")
    .foundBy(unit("services/rules/ChangePosition")),
  plant("a reader between two pages is never covered by a mark", positions)
    .edit("  return isWhole && high.position <= mark.high", "  return high.position <= mark.high")
    .foundBy(unit("services/rules/ChangePosition"), unit("services/rules/ChangeToken")),
  plant("a mark covers only readers that still wait for its unfinished transactions", positions)
    .edit(
      "    && mark.pending.every((position) => position > high.position || unseen.has(position))",
      "    && mark.pending.every((position) => position > high.position || unseen.size > 0)"
    )
    .foundBy(unit("services/rules/ChangePosition"), unit("services/rules/ChangeToken")),
  plant("a moved ledger always puts new changes behind the restored ones", migration)
    .edit(
      "- pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
      "- pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    )
    .foundBy(postgres("services/reads/ChangeHistory")),
  plant("a move of the ledger waits for the changes under way", migration)
    .edit("    LOCK TABLE operations IN SHARE ROW EXCLUSIVE MODE;\n", "")
    .foundBy(postgres("services/reads/ChangeHistory")),
  plant("a move of the ledger always ends the tokens", migration)
    .edit("    NEW.history := gen_random_uuid();\n", "")
    .foundBy(postgres("services/reads/ChangeHistory")),
  plant("the change offset changes only with the home of the ledger", migration)
    .edit("  ELSIF NEW.change_offset <> OLD.change_offset THEN", "  ELSIF NEW.change_offset < OLD.change_offset THEN")
    .foundBy(postgres("services/reads/ChangePositions"), postgres("services/schema/ForbiddenStatements")),
  plant("a hold of all operations always ends the tokens", "src/services/sql/queue/SqlHolds.ts")
    .edit("    UPDATE ledger_home SET history = gen_random_uuid()\n", "    UPDATE ledger_home SET history = history\n")
    .foundBy(postgres("services/reads/ChangeHistory")),
  plant("a mark of the changes never goes back", changeStatements)
    .edit("  WHERE m.high <= excluded.high`", "`")
    .foundBy(postgres("services/reads/ChangeMarks", "never goes back")),
  plant("a change during the read of a wait wakes it again", waits)
    .edit(
      "              woken.closeUnsafe()\n              isOver = now() >= end || lifecycle.isDraining()\n              answer = yield* reread\n",
      "              isOver = now() >= end || lifecycle.isDraining()\n              answer = yield* reread\n              woken.closeUnsafe()\n"
    )
    .foundBy(unit("server/waits/Waits")),
  plant("a wait begins with a read that the watcher precedes", waits)
    .edit(
      "return park() ? waitFrom(reread) : Effect.succeed(notHonoured(answer))",
      "return park() ? waitFrom(Effect.succeed(answer)) : Effect.succeed(notHonoured(answer))"
    )
    .foundBy(unit("server/waits/Waits")),
  plant("one client never takes the reads of the others", waits)
    .edit("const maxReadsPerClient = 16", "const maxReadsPerClient = 64")
    .foundBy(unit("server/waits/Waits")),
  plant("an effect starts only once the watcher knows where to begin", follower)
    .edit(
      "    let token = yield* inTime(feed.now)\n    if (hasTried.isOpen()) listener.onResume()\n    hasTried.openUnsafe()\n",
      "    if (hasTried.isOpen()) listener.onResume()\n    hasTried.openUnsafe()\n    let token = yield* inTime(feed.now)\n"
    )
    .foundBy(unit("server/waits/ChangeWatcher")),
  plant("waiters from before a failure of the watcher always wake", follower)
    .edit("    if (hasTried.isOpen()) listener.onResume()\n", "")
    .foundBy(unit("server/waits/ChangeWatcher"), unit("operator/console/EventsRoute")),
  plant("a revocation ends a wait also while nothing changes", watcher)
    .edit(
      "    onResume: () => waiters.wakeAll(),\n    beside: watchGrants\n",
      "    onResume: () => waiters.wakeAll()\n"
    )
    .foundBy(unit("server/waits/ChangeWatcher"), unit("server/waits/Waits")),
  plant("a topic of an owner names client and subject", "src/server/waits/Waiters.ts")
    .edit("`owner ${client_id} ${subject}`", "`owner ${client_id}`")
    .foundBy(unit("server/waits/ChangeWatcher")),
  plant("a request that parks after the shutdown began wakes at once", lifecycle)
    .edit("      if (draining) request.wake()\n", "")
    .foundBy(unit("server/waits/Waits"), unit("server/gate/Lifecycle")),
  plant("a client never waits with more requests than its limit", lifecycle)
    .edit("      if (waitingOf.of(client) >= options.maxWaitingPerClient) return false\n", "")
    .foundBy(unit("server/gate/Lifecycle")),
  plant("a wait ends by the monotonic clock", waits)
    .edit(
      "const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6",
      "const now = () => clock.currentTimeMillisUnsafe()"
    )
    .foundBy(unit("server/waits/Waits", "while the wall clock steps back"))
]
