/**
 * `operations list`, `operations show` and `status` tell operators what the ledger knows, and each action has the name of its
 * operator. The tests run the program against the real PostgreSQL.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as os from "node:os"
import { type ClientId, ProviderName, type ResourceOwner } from "../../../src/domain/Grant.ts"
import { type OperationFilter, OperatorDetail, OperatorSummary } from "../../../src/domain/operators/OperatorView.ts"
import { accept as accepted, issue, PostgresLedger, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { allSearched, fillSearched, isListed, type Searched } from "../../fixtures/ledger/SearchedLedger.ts"
import { operatorEvidence } from "../../fixtures/OperatorEvidence.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { launch, result, run, runInTerminal, urlOf } from "../../fixtures/processes/CommandLine.ts"

type Env = Readonly<Record<string, string>>

const Page = Schema.Struct({ operations: Schema.Array(OperatorSummary), next: Schema.NullOr(Schema.String) })
const decodePage = Schema.decodeUnknownSync(Page)
const decodeDetail = Schema.decodeUnknownSync(OperatorDetail)

/** The environment of commands on the database of this test file. */
const searchedEnv = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
  return { DATABASE_URL: urlOf(row!.name) } satisfies Env
})

const list = (env: Env, ...flags: ReadonlyArray<string>) =>
  Effect.map(result(["operations", "list", "--json", ...flags], env), decodePage)

const idsOf = (operations: ReadonlyArray<{ readonly operation: { readonly id: string } }>) =>
  operations.map(({ operation }) => operation.id)

const fill = Effect.gen(function*() {
  yield* fillSearched(1)
  const rows = yield* allSearched
  return { env: yield* searchedEnv, rows }
})

class Filled extends Context.Service<Filled, { readonly env: Env; readonly rows: ReadonlyArray<Searched> }>()(
  "test/Filled"
) {
  static readonly layer = Layer.effect(Filled, fill).pipe(Layer.provideMerge(PostgresLedger))
}

const isColored = (shown: string) => shown.includes("\u001B[")

/** A command that fails says why in one line on standard error, and exits with 1. */
const refusal = (args: ReadonlyArray<string>, env: Env) =>
  Effect.map(run(args, env), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 1)
    assert.match(stderr, /^error: [^\n]+\n$/)
    return { stderr, stdout }
  })

const options = { excludeTestServices: true } as const

layer(Filled.layer, options)("operations list", (it) => {
  it.effect("prints the operations that match all filters, and no other", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const [some] = rows.filter(({ reference }) => reference !== null)
      assert.isDefined(some)
      const tenDays = DateTime.subtract(yield* DateTime.now, { days: 10 })
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, OperationFilter]> = [
        [[], {}],
        [["--state", "submitted", "--state", "succeeded"], { states: ["submitted", "succeeded"] }],
        [["--provider", some!.provider, "--held"], { provider: some!.provider as ProviderName, queue: "held" }],
        [["--under-review"], { queue: "under_review" }],
        [["--waiting"], { queue: "waiting" }],
        [["--reversed"], { queue: "reversed" }],
        [["--older-than", "10d", "--state", "accepted"], { unchanged_since: tenDays, states: ["accepted"] }],
        [["--owner", some!.resource_owner], { resource_owner: some!.resource_owner as ResourceOwner }],
        [["--client", some!.client_id], { client_id: some!.client_id as ClientId }],
        [["--key", some!.idempotency_key], { idempotency_key: some!.idempotency_key }],
        [["--reference", some!.reference!], { reference: some!.reference! }]
      ]
      for (const [flags, filter] of cases) {
        const { next, operations } = yield* list(env, "--limit", "1000", ...flags)
        const expected = rows.filter(isListed(filter)).map(({ id }) => id)
        assert.isNotEmpty(expected, flags.join(" "))
        assert.sameMembers(idsOf(operations), expected, flags.join(" "))
        assert.isNull(next)
      }
    }))

  it.effect("prints pages, and on standard error the call for the next one", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const provider = rows[0]!.provider
      const pages: Array<ReadonlyArray<string>> = []
      let args = ["operations", "list", "--json", "--provider", provider, "--order", "oldest", "--limit", "8"]
      while (args.length > 0) {
        const { code, stderr, stdout } = yield* run(args, env)
        assert.strictEqual(code, 0)
        pages.push(idsOf(decodePage(JSON.parse(stdout)).operations))
        const call = /^Next page: npm run -s gateway -- (.*)\n$/.exec(stderr)?.[1]
        args = call === undefined ? [] : call.split(" ")
      }
      assert.deepStrictEqual(pages.map(({ length }) => length), [8, 8, 6])
      assert.sameMembers(pages.flat(), rows.filter((row) => row.provider === provider).map(({ id }) => id))
    }))

  it.effect("prints the newest 50 without flags, and the oldest first if asked", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const { operations } = yield* list(env, "--state", "submitted")
      const oldest = yield* list(env, "--state", "submitted", "--order", "oldest")
      assert.deepStrictEqual(idsOf(oldest.operations), idsOf(operations).toReversed())
      assert.lengthOf((yield* list(env)).operations, 50)
    }))

  it.effect("prints a table for people, and more of each operation with --wide", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const { stdout } = yield* run(["operations", "list", "--held", "--limit", "1"], env)
      const [titles, row, ...more] = stdout.trimEnd().split("\n")
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(titles!.split(/ +/), ["id", "operation", "state", "provider", "age", "next"])
      assert.match(row!, /^[0-9a-f-]{36} +payment +accepted held( review)? +\S+ +\d+[smhd]/)
      const { resource_owner } = rows.find(({ id }) => row!.startsWith(id))!
      assert.notInclude(row, resource_owner)
      const wide = yield* run(["operations", "list", "--held", "--limit", "1", "--wide"], env)
      assert.include(wide.stdout, resource_owner)
    }))

  it.effect("says on standard error that nothing matches", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      assert.deepStrictEqual(yield* run(["operations", "list", "--owner", "unknown"], env), {
        code: 0,
        stdout: "",
        stderr: "No operation matches.\n"
      })
    }))

  it.effect("refuses several queues, limits out of range, and pages of another list", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const several = yield* refusal(["operations", "list", "--held", "--waiting"], env)
      assert.include(several.stderr, "at most one of --held, --under-review, --waiting, --reversed and --approval")
      const limit = yield* refusal(["operations", "list", "--limit", "1001"], env)
      assert.include(limit.stderr, "between 1 and 1000")
      const page = yield* refusal(["operations", "list", "--after", "unknown"], env)
      assert.include(page.stderr, "start the list again")
    }))

  it.effect("has colors on a terminal, unless the user wants none", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const args = ["operations", "list", "--limit", "1"]
      assert.isTrue(isColored((yield* runInTerminal(args, env)).shown))
      assert.isFalse(isColored((yield* runInTerminal(args, { ...env, NO_COLOR: "1" })).shown))
    }))

  it.effect("fits the terminal, and has no colors with --no-color", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      for (const flags of [[], ["--wide"]]) {
        const { shown } = yield* runInTerminal(["operations", "list", "--no-color", "--limit", "3", ...flags], env)
        assert.isFalse(isColored(shown))
        const lines = shown.split("\r\n").filter((line) => !line.startsWith("Next page"))
        assert.isAbove(lines.length, 3)
        for (const line of lines) assert.isAtMost(line.length, 100)
      }
    }))
})

layer(Filled.layer, options)("operations show", (it) => {
  it.effect("finds an operation by its id, its key or its reference, and prints everything about it", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const sql = yield* SqlClient.SqlClient
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operations DISABLE TRIGGER USER`
        yield* sql`UPDATE operations SET reference = 'only-one' WHERE id = ${rows[0]!.id}`
        yield* sql`ALTER TABLE operations ENABLE TRIGGER USER`
      }))
      const { id, idempotency_key, resource_owner } = rows[0]!
      const printed = yield* result(["operations", "show", id, "--json"], env)
      for (const text of [idempotency_key, "only-one"]) {
        assert.deepStrictEqual(yield* result(["operations", "show", text, "--json"], env), printed)
      }
      const { operation, reference, schedule } = decodeDetail(printed)
      assert.deepStrictEqual([operation.id, reference], [id, "only-one"])
      assert.strictEqual(printed["return_reason"], schedule.return_reason)
      const { stdout } = yield* run(["operations", "show", "only-one"], env)
      for (const text of [id, idempotency_key, resource_owner, "Next action", "Schedule", "Authorization"]) {
        assert.include(stdout, text)
      }
    }))

  it.effect("prints all operations that a text fits, and exits with 1", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const referred = Map.groupBy(rows.filter(({ reference }) => reference !== null), ({ reference }) => reference!)
      const [shared, matches] = [...referred].find(([, { length }]) => length > 1)!
      const message = `error: ${matches.length} operations match: name one by its id\n`
      const table = yield* refusal(["operations", "show", shared], env)
      assert.strictEqual(table.stderr, message)
      for (const { id } of matches) assert.include(table.stdout, id)
      const json = yield* refusal(["operations", "show", shared, "--json"], env)
      assert.sameMembers(idsOf(decodePage(JSON.parse(json.stdout)).operations), matches.map(({ id }) => id))
    }))

  it.effect("takes the text for what --by names", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const sql = yield* SqlClient.SqlClient
      const [keyed, referred] = [rows[1]!, rows[2]!]
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`ALTER TABLE operations DISABLE TRIGGER USER`
        yield* sql`UPDATE operations SET reference = ${keyed.idempotency_key} WHERE id = ${referred.id}`
        yield* sql`ALTER TABLE operations ENABLE TRIGGER USER`
      }))
      const show = ["operations", "show", keyed.idempotency_key]
      assert.include((yield* refusal(show, env)).stderr, "2 operations match")
      for (const [by, { id }] of [["key", keyed], ["reference", referred]] as const) {
        assert.strictEqual(decodeDetail(yield* result([...show, "--by", by, "--json"], env)).operation.id, id)
      }
      assert.include((yield* refusal([...show, "--by", "id"], env)).stderr, "there is no operation with the id filled")
    }))

  it.effect("names a text that fits no operation in one line, without its control characters", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const { stderr, stdout } = yield* refusal(["operations", "show", "\u001B[2Jnone"], env)
      assert.deepStrictEqual(
        [stderr, stdout],
        ["error: there is no operation with the id, key or reference \\u{1b}[2Jnone\n", ""]
      )
    }))
})

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
      assert.match(stdout, /^worker-1 [0-9a-f-]{36} .* other-bank$/m)
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

  it.live("fails with 1 only if the database fails", () =>
    Effect.gen(function*() {
      const { stderr } = yield* refusal(["status"], { DATABASE_URL: "postgres://gateway@127.0.0.1:1/gateway" })
      assert.include(stderr, "ECONNREFUSED")
    }))

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
      yield* act(["hold", "--all"])
      const { code, stderr } = yield* act(["cancel", id, "--operator", "anna"])
      assert.strictEqual(code, 1)
      assert.include(stderr, "is held, and nothing proves that it was never sent")
      assert.strictEqual((yield* act(["release", "--all", "--operator", "anna"])).stdout, "{\"released\":1}\n")
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
        row(user, "hold_all", { affected: 1 }),
        row("anna", "cancel", { result: stderr.replace(/^error: (.*)\n$/, "$1") }),
        row("anna", "release_all", { affected: 1 }),
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
        "cancel",
        "hold",
        "cancel",
        "cancel"
      ])
      assert.deepStrictEqual(history.at(-1)!.evidence, { by: "operator", operator: "anna", reason: "a typing error" })
      const { stdout } = yield* run(["operations", "show", id], env)
      assert.match(stdout, /review by anna \(command\): done\n +reason looks odd\n/)
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
      const wrong = yield* run([...succeeded, "--evidence", evidence], env)
      assert.include(wrong.stderr, "the ledger would refuse 3 of 3 operations")
      assert.deepStrictEqual(
        results(wrong.stdout).map(({ result }) => result),
        ids.map((id) => `operation ${id} cannot move from accepted to succeeded`)
      )
      assert.deepStrictEqual(yield* states, ["accepted", "accepted", "accepted"])
      yield* run(["operations", "hold", "--all"], env)
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

  it.live("on more than 1,000 operations changes none, also with --apply", () =>
    Effect.gen(function*() {
      const { accept, env, sql } = yield* scene
      yield* Effect.all(Array.from({ length: 1001 }, () => accept), { concurrency: 8, discard: true })
      const flags = ["--to", "cancelled", "--reason", "case 4711", "--state", "accepted", "--apply"]
      const { stderr, stdout } = yield* refusal(["operations", "advance", ...flags], env)
      assert.deepStrictEqual([stderr, stdout], ["error: more than 1000 operations match: add a filter\n", ""])
      assert.deepStrictEqual(yield* sql`SELECT DISTINCT state FROM operations`, [{ state: "accepted" }])
      assert.isEmpty(yield* sql`SELECT FROM operator_actions WHERE action = 'advance'`)
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
