/**
 * `status` tells operators what needs them, and each action has the name of its operator. The tests run the program against the real
 * PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as os from "node:os"
import { ProviderName } from "../../../src/domain/Grant.ts"
import { accept as accepted, issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { operatorEvidence } from "../../fixtures/OperatorEvidence.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { launch, result, run, runInTerminal, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { decodeDetail, decodePage, type Env, idsOf, list, refusal } from "../../fixtures/processes/DatabaseCommands.ts"

/** A database with operations that were accepted by a grant. */
const scene = Effect.gen(function*() {
  const database = yield* createDatabase()
  const env: Env = { DATABASE_URL: urlOf(database) }
  // A process for each grant and request would take longer than the test.
  const services = yield* Layer.build(PostgresServices.pipe(Layer.provideMerge(Layer.fresh(layerFor(database)))))
  const { identity } = yield* Effect.provideContext(issue({ provider: ProviderName.make("demo-bank") }), services)
  const acceptWith = (request: Parameters<typeof accepted>[1]) =>
    Effect.provideContext(Effect.map(accepted(identity, request), ({ operation }) => operation.id), services)
  const sql = Context.get(services, SqlClient.SqlClient)
  return { env, accept: acceptWith({}), acceptWith, sql }
})

interface StatusJson {
  readonly migrated: boolean
  readonly embedded: boolean
  readonly figures: {
    readonly operations: ReadonlyArray<object>
    readonly held: ReadonlyArray<object>
    readonly workers: ReadonlyArray<{ readonly worker_id: string | null }>
  } | null
  readonly problems: ReadonlyArray<{ readonly message: string; readonly next: string; readonly command: string | null }>
}

describe("status", () => {
  it.live("shows the operations, the workers, and what needs an operator", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      const id = yield* accept
      yield* result(["operations", "cancel", yield* accept], env)
      yield* result(["operations", "hold", id], env)
      const idle = yield* result<StatusJson>(["status", "--json"], env)
      assert.deepInclude(idle, { migrated: true, embedded: false })
      assert.deepStrictEqual(idle.figures!.operations, [
        { provider: "demo-bank", state: "accepted", count: 1 },
        { provider: "demo-bank", state: "cancelled", count: 1 }
      ])
      const [noWorker, held, ...others] = idle.problems
      assert.deepStrictEqual(others, [])
      assert.deepInclude(noWorker, {
        message: "no worker reports itself, so nothing is sent and no status is read: 1 operation is unsettled",
        next: "Start a worker: `npm run -s gateway -- work --help`"
      })
      assert.match(held!.message, /^demo-bank: 1 operation is held, the oldest for \d+s$/)
      assert.strictEqual(
        held!.command,
        "npm run -s gateway -- operations list --held --provider demo-bank --order oldest"
      )
      // The command that a problem names finds its operations.
      const call = idle.problems[1]!.command!.split(" -- ")[1]!.split(" ")
      assert.deepStrictEqual(idsOf(decodePage(yield* result([...call, "--json"], env)).operations), [id])

      // Of another provider: this worker leaves the operations as they are.
      const nowhere = "other-bank=http://127.0.0.1:1"
      const worker = yield* launch(
        ["work", "--sandbox", nowhere, "--worker-id", "worker-1"],
        env,
        ({ stderr }) => stderr.includes("\"Working\"")
      )
      yield* Effect.repeat(sql<{ readonly worker_id: string }>`SELECT worker_id FROM worker_reports`, {
        until: (rows) => rows.length > 0
      })
      const watched = yield* result<StatusJson>(["status", "--json"], env)
      assert.deepStrictEqual(watched.figures!.workers.map(({ worker_id }) => worker_id), ["worker-1"])
      // No worker serves demo-bank, so the operation would wait after its release as well.
      assert.deepStrictEqual(watched.problems.map(({ command }) => command), [
        "npm run -s gateway -- operations list --state accepted --provider demo-bank --order oldest",
        held!.command
      ])
      const { stdout } = yield* run(["status"], env)
      assert.match(stdout, /^ {2}workers {3}1 reported within 30s$/m)
      assert.match(stdout, /^demo-bank {2}held +1 +\d+s$/m)
      assert.match(stdout, /^worker-1 [0-9a-f]{8} .* other-bank$/m)
      yield* worker.stop("SIGTERM")
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("asks for missing migrations, and applies none", () =>
    Effect.gen(function*() {
      const env = { DATABASE_URL: urlOf(yield* createDatabase({ empty: true })) }
      for (const _ of [1, 2]) {
        const { figures, migrated, problems } = yield* result<StatusJson>(["status", "--json"], env)
        assert.deepStrictEqual([figures, migrated], [null, false])
        assert.deepStrictEqual(problems, [
          { message: "the database lacks migrations", next: "Apply them.", command: "npm run -s gateway -- migrate" }
        ])
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live(
    "with --watch draws again until Ctrl-C, and then leaves the terminal as it was",
    () =>
      Effect.gen(function*() {
        const { env } = yield* scene
        let isStopped = false
        const { code, shown } = yield* runInTerminal(["status", "--watch", "--no-color"], env, (shown) => {
          if (isStopped || shown.split("\u001B[H").length < 3) return null
          isStopped = true
          return "\u0003"
        })
        assert.strictEqual(code, 0)
        assert.isTrue(shown.startsWith("\u001B[?1049h"), "the alternate screen")
        assert.isAbove(shown.split("No problems").length, 2)
        assert.isTrue(shown.endsWith("\u001B[?1049l"), "the screen from before")
        assert.include((yield* refusal(["status", "--watch"], env)).stderr, "--watch needs a terminal")
        assert.include(
          (yield* refusal(["status", "--watch", "--json"], env)).stderr,
          "at most one of --json and --watch"
        )
      }).pipe(Effect.scoped, Effect.provide(Platform))
  )
})

describe("An action of an operator", () => {
  it.live("is recorded with the name and the reason, also if the ledger refuses it, and prints the record", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      const id = yield* accept
      const act = (args: ReadonlyArray<string>, more: Env = {}) => run(["operations", ...args], { ...env, ...more })
      yield* act(["review", id, "--operator", "anna", "--reason", "looks odd"], { OPERATOR: "ben" })
      yield* act(["review", id, "--clear"], { OPERATOR: "ben" })
      for (const action of ["hold", "release"]) {
        assert.match((yield* act([action, "--all"])).stderr, /--all needs --reason/)
        const applied = yield* act([action, "--all", "--apply", "--reason", "a test"])
        assert.match(applied.stderr, /--all acts at once: leave --apply out/)
      }
      assert.strictEqual(
        (yield* act(["hold", "--all", "--reason", "a test"])).stdout,
        "{\"held\":1,\"indeterminate\":0}\n"
      )
      const { code, stderr } = yield* act(["cancel", id, "--operator", "anna"])
      assert.strictEqual(code, 1)
      assert.include(stderr, "is held, and nothing proves that it was never sent")
      assert.strictEqual(
        (yield* act(["release", "--all", "--operator", "anna", "--reason", "none lost"])).stdout,
        "{\"released\":1,\"held_by_operators\":0}\n"
      )
      const printed = [
        yield* act(["hold", id, "--operator", "anna", "--reason", "a call"]),
        yield* act(["cancel", id, "--operator", "anna", "--reason", "a typing error"])
      ].map(({ stdout }) => JSON.parse(stdout) as Readonly<Record<string, unknown>>)
      // Repeated, the result says so, and so does a line for people.
      const again = yield* act(["cancel", id, "--operator", "anna", "--reason", "twice"])
      assert.deepStrictEqual([again.code, again.stderr], [0, "note: it was cancelled already\n"])
      const rows = yield* sql`SELECT operator, via, action, reason, result, affected FROM operator_actions ORDER BY at`
      const user = os.userInfo().username
      const row = (operator: string, action: string, more: object = {}) => ({
        operator,
        via: "command",
        action,
        reason: null,
        result: "done",
        affected: null,
        ...more
      })
      assert.deepStrictEqual(rows, [
        row("anna", "review", { reason: "looks odd" }),
        row("ben", "end_review"),
        row(user, "hold_all", { affected: 1, reason: "a test" }),
        row("anna", "cancel", { result: stderr.replace(/^error: (.*)\n$/, "$1") }),
        row("anna", "release_all", { affected: 1, reason: "none lost" }),
        row("anna", "hold", { reason: "a call" }),
        row("anna", "cancel", { reason: "a typing error" }),
        row("anna", "cancel", { reason: "twice", result: "it was cancelled already" })
      ])
      const shown = yield* result<{ readonly actions: ReadonlyArray<object> }>(
        ["operations", "show", id, "--json"],
        env
      )
      assert.deepStrictEqual(printed.map(({ action }) => action), shown.actions.slice(-3, -1))
      assert.deepInclude(printed[0], { id, state: "accepted", held: true })
      assert.deepInclude(printed[1], { id, state: "cancelled", held: false })
      const { actions, history } = decodeDetail(shown)
      assert.deepStrictEqual(actions.map(({ action }) => action), [
        "review",
        "end_review",
        "hold_all",
        "cancel",
        "release_all",
        "hold",
        "cancel",
        "cancel"
      ])
      assert.deepStrictEqual(history.at(-1)!.evidence, { by: "operator", operator: "anna", reason: "a typing error" })
      const { stdout } = yield* run(["operations", "show", id], env)
      assert.match(stdout, /review by anna \(command\): done\n +reason looks odd\n/)
      assert.match(stdout, / release_all \(all operations\) by anna \(command\): done\n +reason none lost\n/)
      const younger = decodeDetail(yield* result(["operations", "show", yield* accept, "--json"], env))
      assert.lengthOf(younger.actions, 0, "those before it was created are no actions on it")
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("on all that match filters changes nothing without --apply, and then records each one by itself", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      const ids = [yield* accept, yield* accept, yield* accept]
      const outcome = ["--to", "cancelled", "--reason", "case 4711", "--operator", "anna"]
      const advance = (...args: ReadonlyArray<string>) => run(["operations", "advance", ...outcome, ...args], env)
      const results = (text: string) =>
        text.trimEnd().split("\n").map((line) => JSON.parse(line) as Record<"id" | "result", string>)
      const states = Effect.map(
        sql<{ readonly state: string }>`SELECT state FROM operations`,
        (rows) => rows.map(({ state }) => state).toSorted()
      )
      for (const args of [[], [ids[0]!, "--state", "accepted"]]) {
        assert.include((yield* advance(...args)).stderr, "either the id of an operation or filters")
      }
      // All that is missing is named at once.
      const bare = yield* run(["operations", "advance", "--to", "failed"], env)
      assert.strictEqual(
        bare.stderr,
        "error: specify either the id of an operation or filters, --reason, --failure-code, --failure-message, --evidence\n"
      )
      const dry = yield* advance("--state", "accepted")
      assert.strictEqual(dry.code, 0, dry.stderr)
      assert.deepStrictEqual(
        results(dry.stdout).map(({ id, result }) => [id, result]),
        ids.map((id) => [id, "would change"])
      )
      assert.include(dry.stderr, "3 operations match, and none was changed: add --apply")
      const succeeded = ["operations", "advance", "--to", "succeeded", "--reason", "case 4711", "--state", "accepted"]
      const { answer: _, ...one } = operatorEvidence
      const ofOne = yield* run([...succeeded, "--evidence", JSON.stringify(one)], env)
      assert.include(
        ofOne.stderr,
        "--evidence: Expected an answer, a document_sha256, or both; one payment is not several"
      )
      const evidence = JSON.stringify({ ...operatorEvidence, reference_of: "answer" })
      for (const action of ["hold", "release", "cancel"]) {
        const { stderr } = yield* run(["operations", action, "rent-of-may"], env)
        assert.match(stderr, /the id of an operation, a lower-case UUIDv7; operations show KEY prints it/)
      }
      const wrong = yield* run([...succeeded, "--evidence", evidence], env)
      assert.include(wrong.stderr, "the ledger would refuse 3 of 3 operations")
      assert.deepStrictEqual(
        results(wrong.stdout).map(({ result }) => result),
        ids.map((id) =>
          `operation ${id} cannot move from accepted to succeeded: no worker has sent it, so it has no outcome. Let a worker send it, or `
          + "cancel it with operations cancel"
        )
      )
      assert.deepStrictEqual(yield* states, ["accepted", "accepted", "accepted"])
      yield* run(["operations", "hold", "--all", "--reason", "a test"], env)
      yield* sql`UPDATE operations SET hold_placed = false WHERE id <> ${ids[2]!}`
      const applied = yield* advance("--state", "accepted", "--apply")
      assert.strictEqual(applied.code, 1)
      assert.include(applied.stderr, "the ledger refused 1 of 3 operations")
      assert.deepStrictEqual(results(applied.stdout).map(({ result }) => result === "done"), [true, true, false])
      assert.deepStrictEqual(yield* states, ["accepted", "cancelled", "cancelled"])
      const rows = yield* sql`
        SELECT operation_id, operator, reason, result = 'done' AS done FROM operator_actions
        WHERE action = 'advance' ORDER BY at`
      const row = (operation_id: string, done: boolean) => ({
        operation_id,
        operator: "anna",
        reason: "case 4711",
        done
      })
      assert.deepStrictEqual(rows, [row(ids[0]!, true), row(ids[1]!, true), row(ids[2]!, false)])
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of hold, release, cancel and review takes filters, too, and says before what the ledger would do", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      const ids = [yield* accept, yield* accept]
      const act = (action: string, ...args: ReadonlyArray<string>) =>
        Effect.map(
          run(["operations", action, "--provider", "demo-bank", "--operator", "anna", ...args], env),
          ({ code, stderr, stdout }) => ({
            code,
            stderr,
            lines: stdout.trimEnd().split("\n").map((line) => {
              const { resource_owner: _, ...rest } = JSON.parse(line) as Record<string, string>
              return rest
            })
          })
        )
      const line = (action: string, result: string) => (id: string) => ({
        id,
        provider: "demo-bank",
        from: "accepted",
        action,
        result
      })
      const dry = yield* act("hold")
      assert.deepStrictEqual(dry, {
        code: 0,
        stderr: "2 operations match, and none was changed: add --apply to change them.\n",
        lines: ids.map(line("hold", "would change"))
      })
      assert.isEmpty(yield* sql`SELECT FROM operator_actions`)
      for (const action of ["hold", "release", "review"]) {
        const done = yield* act(action, "--apply", "--state", "accepted")
        assert.deepStrictEqual([done.code, done.stderr], [0, "2 of 2 operations changed.\n"])
        assert.deepStrictEqual(done.lines, ids.map(line(action, "done")))
      }
      yield* run(["operations", "cancel", ids[0]!], env)
      const refused = yield* act("hold", "--state", "cancelled")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "1 operation matches, and was not changed: add --apply to change it.\n")
      assert.match(refused.stderr, /the ledger would refuse 1 of 1 operation$/m)
      const cancelled = yield* act("cancel", "--apply")
      assert.strictEqual(cancelled.stderr, "1 of 2 operations changed.\n")
      assert.deepStrictEqual(cancelled.lines.map(({ result }) => result).toSorted(), [
        "done",
        "it was cancelled already"
      ])
      const rows = yield* sql<{ readonly action: string; readonly of: ReadonlyArray<string> }>`
        SELECT action, array_agg(operation_id::text ORDER BY operation_id) AS of FROM operator_actions
        WHERE operator = 'anna' GROUP BY action ORDER BY action`
      assert.deepStrictEqual(
        rows,
        ["cancel", "hold", "release", "review"].map((action) => ({ action, of: ids.toSorted() }))
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("on more than 1,000 operations changes none, also with --apply", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      yield* Effect.all(Array.from({ length: 1001 }, () => accept), { concurrency: 8, discard: true })
      const flags = ["--state", "accepted", "--apply"]
      for (const action of [["advance", "--to", "cancelled", "--reason", "case 4711"], ["cancel"], ["hold"]]) {
        const { stderr, stdout } = yield* refusal(["operations", ...action, ...flags], env)
        assert.deepStrictEqual([stderr, stdout], ["error: more than 1000 operations match: add a filter\n", ""])
      }
      assert.deepStrictEqual(yield* sql`SELECT DISTINCT state FROM operations`, [{ state: "accepted" }])
      assert.isEmpty(yield* sql`SELECT FROM operator_actions `)
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("sees amount and payee with a reason alone, which is recorded", () =>
    Effect.gen(function*() {
      const { acceptWith, env, sql } = yield* scene
      const terms = { amount: "750.00", currency: "EUR", payee: "DE89370400440532013000" }
      const id = yield* acceptWith({ terms })
      for (const args of [["show", id, "--terms"], ["list", "--payee", terms.payee]]) {
        const { code, stderr, stdout } = yield* run(["operations", ...args], env)
        assert.deepStrictEqual([code, stdout], [1, ""])
        assert.match(stderr, /^error: --\w+ needs --reason/m)
      }
      assert.isEmpty(yield* sql`SELECT FROM operator_actions`)
      const shown = (...args: ReadonlyArray<string>) =>
        Effect.map(result(["operations", "show", id, "--json", ...args], env), (text) => decodeDetail(text).terms)
      assert.deepStrictEqual(yield* shown(), { amount: "••••", currency: "EUR", payee: "••••3000" })
      const because = ["--reason", "case 4711", "--operator", "anna"]
      assert.deepStrictEqual(yield* shown("--terms", ...because), terms)
      const { operations } = yield* list(env, "--payee", terms.payee, ...because)
      assert.deepStrictEqual(operations.map(({ operation, terms }) => [operation.id, terms]), [[id, terms]])
      const rows = yield* sql`SELECT operator, reason FROM operator_actions`
      assert.deepStrictEqual(rows, [{ operator: "anna", reason: "case 4711" }, {
        operator: "anna",
        reason: "case 4711"
      }])
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("needs a name of 1 to 255 characters", () =>
    Effect.gen(function*() {
      const unknown = "01900000-0000-7000-8000-000000000000"
      for (const name of ["", "a".repeat(256)]) {
        const { stderr } = yield* refusal(["operations", "hold", unknown, "--operator", name], {})
        assert.include(stderr, "--operator")
      }
    }))
})
