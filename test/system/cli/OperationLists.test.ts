/**
 * The commands operations list and operations show tell operators what the ledger knows, page by page. The tests run the program against the real PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientId, ProviderName, ResourceOwner } from "../../../src/domain/Grant.ts"
import type { OperationFilter } from "../../../src/domain/operators/OperatorView.ts"
import { PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { allSearched, fillSearched, isListed, type Searched } from "../../fixtures/ledger/SearchedLedger.ts"
import { result, run, runInTerminal, runProcess, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { decodeDetail, decodePage, type Env, idsOf, list, refusal } from "../../fixtures/processes/DatabaseCommands.ts"

/** The environment of commands on the database of this test file. */
const searchedEnv = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
  return { DATABASE_URL: urlOf(row!.name) } satisfies Env
})

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

const options = { excludeTestServices: true } as const

layer(Filled.layer, options)("operations list", (it) => {
  it.effect("prints the operations that match all filters, and no other", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const [some] = rows.filter(({ reference }) => reference !== null)
      assert.isDefined(some)
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, OperationFilter]> = [
        [[], {}],
        [["--state", "submitted", "--state", "succeeded"], { states: ["submitted", "succeeded"] }],
        [["--provider", some!.provider, "--held"], { provider: some!.provider as ProviderName, queue: "held" }],
        [["--under-review"], { queue: "under_review" }],
        [["--waiting"], { queue: "waiting" }],
        [["--reversed"], { queue: "reversed" }],
        [["--failed"], { queue: "failed" }],
        [["--older-than", "10d", "--state", "accepted"], { unchanged_for: Duration.days(10), states: ["accepted"] }],
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

  it.effect("takes an age from the clock of the database, also where that of the operator is a month ahead", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const ahead = encodeURIComponent("const { now } = Date; Date.now = () => now() + 30 * 86_400_000")
      const { stdout } = yield* runProcess(
        ["operations", "list", "--json", "--limit", "1000", "--older-than", "10d", "--state", "accepted"],
        { ...env, NODE_OPTIONS: `--import=data:text/javascript,${ahead}` }
      )
      const { operations } = decodePage(JSON.parse(stdout))
      const expected = rows.filter(isListed({ unchanged_for: Duration.days(10), states: ["accepted"] }))
      assert.sameMembers(idsOf(operations), expected.map(({ id }) => id))
      assert.isBelow(expected.length, rows.filter(isListed({ states: ["accepted"] })).length)
    }))

  it.effect("prints pages, and on standard error the call for the next one", () =>
    Effect.gen(function*() {
      const { env, rows } = yield* Filled
      const provider = rows[0]!.provider
      const pages: Array<ReadonlyArray<string>> = []
      let args = ["operations", "list", "--json", "--provider", provider, "--order", "oldest", "--limit", "9"]
      while (args.length > 0) {
        const { code, stderr, stdout } = yield* run(args, env)
        assert.strictEqual(code, 0)
        pages.push(idsOf(decodePage(JSON.parse(stdout)).operations))
        const call = /^Next page: npm run -s gateway -- (.*)\n$/.exec(stderr)?.[1]
        args = call === undefined ? [] : call.split(" ")
      }
      assert.deepStrictEqual(pages.map(({ length }) => length), [9, 9, 6])
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

  it.effect("refuses limits out of range, and pages of another list", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const limit = yield* refusal(["operations", "list", "--limit", "1001"], env)
      assert.include(limit.stderr, "between 1 and 1000")
      const page = yield* refusal(["operations", "list", "--after", "unknown"], env)
      assert.include(page.stderr, "start the list again")
    }))

  it.effect("fits the terminal, and has colors unless the user wants none", () =>
    Effect.gen(function*() {
      const { env } = yield* Filled
      const colored = ["operations", "list", "--limit", "1"]
      assert.isTrue(isColored((yield* runInTerminal(colored, env)).shown))
      assert.isFalse(isColored((yield* runInTerminal(colored, { ...env, NO_COLOR: "1" })).shown))
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
