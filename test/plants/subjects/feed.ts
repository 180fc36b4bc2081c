/** Mistakes in the change feed and in waits: no change is skipped, and no wake-up is lost. */
import { long, type Plant, postgres, unit } from "../Plant.ts"

const positions = "src/services/rules/changeToken.ts"
const migration = "migrations/0010_change_feed.sql"
const waits = "src/server/waits/Waits.ts"
const watcher = "src/server/waits/ChangeWatcher.ts"
const follower = "src/server/waits/ChangeFollower.ts"
const lifecycle = "src/server/gate/Lifecycle.ts"

export const feed: ReadonlyArray<Plant> = [
  {
    rule: "the change feed refuses a grant that may not read",
    file: "src/services/sql/reads/SqlOperationFeed.ts",
    from: "const refused = refusalOf(grant, rows[0]?.[factAt.standing])",
    to: "const refused = rows[0] === undefined ? refusalOf(grant, undefined) : null",
    tests: [postgres("services/reads/GrantStandings", "refuses each combination")]
  },
  {
    rule: "a page of the feed never passes more running transactions than its token keeps",
    file: "src/services/sql/reads/changeStatements.ts",
    from: "THEN l.ceiling - 1 ELSE r.after END",
    to: "THEN l.upcoming::bigint - 1 ELSE r.after END",
    tests: [long("costs/ChangeFeedCeiling")]
  },
  {
    rule: "a token keeps every transaction that was running below its place",
    file: positions,
    from: "position > from.high.position && position < last.position)",
    to: "position > from.high.position && position < last.position && isWhole)",
    tests: [unit("services/ChangePosition")]
  },
  {
    rule: "a token keeps an unfinished position until its transaction has finished",
    file: positions,
    from: "running.has(position) || position >= unfinished.upcoming",
    to: "running.has(position)",
    tests: [unit("services/ChangePosition")]
  },
  {
    rule: "behind the ceiling of a page there is always more",
    file: positions,
    from: "isWhole: page.isWhole && page.unfinished.running.length <= maxPending",
    to: "isWhole: page.isWhole",
    tests: [unit("services/ChangePosition")]
  },
  {
    rule: "a reader between two pages is never covered by a mark",
    file: positions,
    from: "  return isWhole && high.position <= mark.high",
    to: "  return high.position <= mark.high",
    tests: [unit("services/ChangePosition"), unit("services/ChangeToken")]
  },
  {
    rule: "a mark covers only readers that still wait for its unfinished transactions",
    file: positions,
    from: "    && mark.pending.every((position) => position > high.position || unseen.has(position))",
    to: "    && mark.pending.every((position) => position > high.position || unseen.size > 0)",
    tests: [unit("services/ChangePosition"), unit("services/ChangeToken")]
  },
  {
    rule: "a moved ledger always puts new changes behind the restored ones",
    file: migration,
    from: "- pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    to: "- pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
    tests: [postgres("services/reads/ChangeHistory")]
  },
  {
    rule: "a move of the ledger waits for the changes under way",
    file: migration,
    from: "    LOCK TABLE operations IN SHARE ROW EXCLUSIVE MODE;\n",
    to: "",
    tests: [postgres("services/reads/ChangeHistory")]
  },
  {
    rule: "a move of the ledger always ends the tokens",
    file: migration,
    from: "    NEW.history := gen_random_uuid();\n",
    to: "",
    tests: [postgres("services/reads/ChangeHistory")]
  },
  {
    rule: "the change offset changes only with the home of the ledger",
    file: migration,
    from: "  ELSIF NEW.change_offset <> OLD.change_offset THEN",
    to: "  ELSIF NEW.change_offset < OLD.change_offset THEN",
    tests: [postgres("services/reads/ChangePositions"), postgres("services/schema/ForbiddenStatements")]
  },
  {
    rule: "a hold of all operations always ends the tokens",
    file: "src/services/sql/queue/SqlHolds.ts",
    from: "    UPDATE ledger_home SET history = gen_random_uuid()\n",
    to: "    UPDATE ledger_home SET history = history\n",
    tests: [postgres("services/reads/ChangeHistory")]
  },
  {
    rule: "a mark of the changes never goes back",
    file: "src/services/sql/reads/changeStatements.ts",
    from: "  WHERE m.high <= excluded.high`",
    to: "`",
    tests: [postgres("services/reads/ChangeMarks", "never goes back")]
  },
  {
    rule: "a change during the read of a wait wakes it again",
    file: waits,
    from:
      "              woken.closeUnsafe()\n              isOver = now() >= end || lifecycle.isDraining()\n              answer = yield* reread\n",
    to:
      "              isOver = now() >= end || lifecycle.isDraining()\n              answer = yield* reread\n              woken.closeUnsafe()\n",
    tests: [unit("server/waits/Waits")]
  },
  {
    rule: "a wait begins with a read that the watcher precedes",
    file: waits,
    from: "return park() ? waitFrom(reread) : Effect.succeed(notHonoured(answer))",
    to: "return park() ? waitFrom(Effect.succeed(answer)) : Effect.succeed(notHonoured(answer))",
    tests: [unit("server/waits/Waits")]
  },
  {
    rule: "one client never takes the reads of the others",
    file: waits,
    from: "const maxReadsPerClient = 16",
    to: "const maxReadsPerClient = 64",
    tests: [unit("server/waits/Waits")]
  },
  {
    rule: "an effect starts only once the watcher knows where to begin",
    file: follower,
    from:
      "    let token = yield* inTime(feed.now)\n    if (hasTried.isOpen()) listener.onResume()\n    hasTried.openUnsafe()\n",
    to:
      "    if (hasTried.isOpen()) listener.onResume()\n    hasTried.openUnsafe()\n    let token = yield* inTime(feed.now)\n",
    tests: [unit("server/waits/ChangeWatcher")]
  },
  {
    rule: "waiters from before a failure of the watcher always wake",
    file: follower,
    from: "    if (hasTried.isOpen()) listener.onResume()\n",
    to: "",
    tests: [unit("server/waits/ChangeWatcher"), unit("operator/console/EventsRoute")]
  },
  {
    rule: "a revocation ends a wait also while nothing changes",
    file: watcher,
    from: "    onResume: () => waiters.wakeAll(),\n    beside: watchGrants\n",
    to: "    onResume: () => waiters.wakeAll()\n",
    tests: [unit("server/waits/ChangeWatcher"), unit("server/waits/Waits")]
  },
  {
    rule: "a topic of an owner names client and subject",
    file: "src/server/waits/Waiters.ts",
    from: "`owner ${client_id} ${subject}`",
    to: "`owner ${client_id}`",
    tests: [unit("server/waits/ChangeWatcher")]
  },
  {
    rule: "a request that parks after the shutdown began wakes at once",
    file: lifecycle,
    from: "      if (draining) request.wake()\n",
    to: "",
    tests: [unit("server/waits/Waits"), unit("server/gate/Lifecycle")]
  },
  {
    rule: "a client never waits with more requests than its limit",
    file: lifecycle,
    from: "      if (waitingOf.of(client) >= options.maxWaitingPerClient) return false\n",
    to: "",
    tests: [unit("server/gate/Lifecycle")]
  }
]
