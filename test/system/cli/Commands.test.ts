/**
 * The commands for grants, clients, providers and operations do one thing each, and report errors in one line. The
 * tests run the program against the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { invocation } from "../../../src/node/process/Invocation.ts"
import { evidenceOf, operatorEvidence } from "../../fixtures/OperatorEvidence.ts"
import { migrations } from "../../fixtures/postgres/migrations.ts"
import { freePort, result, run, runProcess } from "../../fixtures/processes/CommandLine.ts"
import { issue, onDatabase, refused } from "../../fixtures/processes/DatabaseCommands.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

type Operation = { readonly id: string; readonly state: string; readonly revision: number; readonly created_at: string }
const arrays = (levels: number): string => "[".repeat(levels) + "]".repeat(levels)

/** Names of the commands in a help text, which lists them below `SUBCOMMANDS`. */
const commandsIn = (help: string): ReadonlyArray<string> => {
  const [, list = ""] = help.split(/^SUBCOMMANDS$/m)
  return [...(list.split(/^\S/m)[0] ?? "").matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name]) => name!)
}

describe("The command line", () => {
  it.live("names the setting of a database that it cannot use", () =>
    onDatabase(({ DATABASE_URL }) =>
      Effect.gen(function*() {
        const url = new URL(DATABASE_URL!)
        url.pathname = "/no_such_database"
        const wrong = [
          url.href,
          // It cannot be reached.
          "postgres://user:secret@127.0.0.1:1/x",
          "postgres://u@127.0.0.1:1,127.0.0.1:2/x",
          "x://"
        ]
        for (const value of wrong) {
          const stderr = yield* refused(["status"], { DATABASE_URL: value })
          assert.match(stderr, /^error: database error: [^\n]+ \(DATABASE_URL\)\n$/)
          assert.notInclude(stderr, "secret")
        }
        const port = String(yield* freePort)
        for (
          const [setting, ...command] of [
            ["OWNER_DATABASE_URL", "serve", "--port", port],
            ["WRITER_DATABASE_URL", "console", "--port", port],
            ["OWNER_DATABASE_URL", "migrate"],
            ["WRITER_DATABASE_URL", "grants", "show", "01890a5d-ac96-774b-bcce-b302099a8057"]
          ] as const
        ) {
          const stderr = yield* refused(command, {
            DATABASE_URL: DATABASE_URL!,
            [setting]: wrong[1]!
          })
          assert.include(stderr, `(${setting})`)
        }
      })
    ))

  it.live("warns of a misspelt setting, without its value, and of no other variable", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* runProcess(["roles", "create"], { MAX_CONECTIONS: "5-secret", PGHOST: "db" })
      assert.strictEqual(code, 0)
      const [line, ...others] = stderr.trim().split("\n")
      assert.isEmpty(others)
      assert.deepInclude(JSON.parse(line!), {
        level: "WARN",
        message: "MAX_CONECTIONS is no setting, and has no effect: did you mean MAX_CONNECTIONS?"
      })
      assert.notInclude(stderr, "secret")
    }))

  it.live(
    "refuses a directory without a database, and creates nothing, unless the command may be the first",
    () =>
      Effect.gen(function*() {
        const directory = path.join(yield* temporaryDirectory, "other")
        const id = "01890a5d-ac96-774b-bcce-b302099a8057"
        const commands = [
          ["operations", "list"],
          ["operations", "show", "s3", "--by", "key"],
          ["operations", "cancel", id],
          ["grants", "show", id],
          ["approvals", "list"],
          ["status"],
          ["console"]
        ]
        for (const args of commands) {
          const stderr = yield* refused([...args, "--data-dir", path.relative(process.cwd(), directory)], {
            ADMIN_PORT: String(yield* freePort)
          })
          assert.strictEqual(
            stderr,
            `error: no database in ${directory}: name its directory by --data-dir or DATA_DIR, or create one by `
              + `\`${invocation} serve\`\n`
          )
          assert.isFalse(fs.existsSync(directory))
        }
        // A directory of other data has none, either.
        fs.mkdirSync(directory)
        assert.include(yield* refused(["status"], { DATA_DIR: directory }), `no database in ${directory}: `)
        assert.deepStrictEqual(fs.readdirSync(directory), [])

        assert.strictEqual((yield* run(["migrate"], { DATA_DIR: directory })).code, 0)
        assert.include((yield* run(["operations", "list"], { DATA_DIR: directory })).stderr, "No operation matches")
      }).pipe(Effect.scoped),
    60_000
  )

  it.live("accepts each key once, advances with evidence, and shows the history", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const { grant_id } = yield* issue(env)
        const request = ["--grant", grant_id, "--type", "payment", "--key", "k"]
        const accept = (payload: string) => ["operations", "accept", ...request, "--payload", payload]
        const first = yield* result<{ operation: Operation; created: boolean }>(accept("{\"a\":1,\"b\":2}"), env)
        assert.isTrue(first.created)
        const { id } = first.operation
        assert.deepStrictEqual(yield* result(accept("{\"b\":2.0,\"a\":1}"), env), { ...first, created: false })
        assert.include(yield* refused(accept("-"), env, "{\"a\":2}"), "used before with another request")
        assert.include(yield* refused(["operations", "advance", id, "--to", "submitting"], env), "--reason")
        const to = (state: string) => ["operations", "advance", id, "--reason", "ticket 4711", "--to", state]
        yield* result([...to("submitting"), "--operator", "bob"], env)
        yield* result([...to("indeterminate"), "--operator", "bob"], env)
        assert.include(yield* refused(to("accepted"), env), "--to")
        assert.include(yield* refused(to("cancelled"), env), "record the answer with operations advance")
        assert.include(yield* refused(to("succeeded"), env), "recorded evidence")
        assert.include(yield* refused(to("failed"), env), "--failure-code")
        const coded = (code: string) => ["--failure-code", code, "--failure-message", "The bank said no."]
        assert.include(
          yield* refused([...to("failed"), ...coded("provider_unreachable")], env),
          "a code that the gateway does not record itself"
        )
        const failure = coded("declined")
        const advance = [...to("failed"), ...failure, "--evidence", "-"]
        const wrong = { ...operatorEvidence, question: " ", asked: undefined, asked_at: "today", by: "status_read" }
        assert.strictEqual(
          yield* refused(advance, env, JSON.stringify(wrong)),
          `error: operation ${id} cannot move to failed with this evidence: by: Expected no excess property; `
            + "question: Expected text; asked: Missing key; asked_at: Expected an RFC 3339 date-time such as "
            + "2026-05-02T09:30:00Z\n"
        )
        const early = { ...operatorEvidence, answer: undefined, asked_at: "2000-05-02T09:30:00Z" }
        assert.include(
          yield* refused(advance, env, JSON.stringify(early)),
          "with this evidence: Expected an answer, a document_sha256, or both; asked_at 2000-05-02T09:30:00.000Z is before "
            + `the creation of the operation at ${first.operation.created_at}`
        )
        const evidence = evidenceOf(first.operation)
        const failed = yield* run([...advance, "--operator", "alice"], env, JSON.stringify(evidence))
          .pipe(Effect.map(({ stdout }) => JSON.parse(stdout) as Operation))
        assert.deepInclude(failed, { state: "failed", revision: 4 })
        const by = (operator: string) => ({ by: "operator", operator, reason: "ticket 4711" })
        const shown = yield* result<
          Record<"history" | "actions", ReadonlyArray<Record<string, unknown>>> & { operation: unknown }
        >(
          ["operations", "show", id, "--json"],
          env
        )
        assert.deepStrictEqual(shown.operation, failed)
        assert.deepStrictEqual(
          shown.history.map(({ evidence, from, revision, to }) => ({ revision, from, to, evidence })),
          [
            { revision: 1, from: null, to: "accepted", evidence: null },
            { revision: 2, from: "accepted", to: "submitting", evidence: by("bob") },
            { revision: 3, from: "submitting", to: "indeterminate", evidence: by("bob") },
            {
              revision: 4,
              from: "indeterminate",
              to: "failed",
              evidence: { ...by("alice"), ...evidence }
            }
          ]
        )
        assert.deepStrictEqual(shown.actions.map(({ result }) => result), [
          "done",
          "done",
          shown.actions[2]!.result,
          shown.actions[3]!.result,
          shown.actions[4]!.result,
          shown.actions[5]!.result,
          "done"
        ])
        assert.deepInclude(shown.actions[6], { action: "advance", operator: "alice", reason: "ticket 4711" })
      })
    ))

  it.live("answers a batch line by line, in order, and continues after a bad line", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const { grant_id } = yield* issue(env)
        const lines = [
          "{\"type\":\"payment\",\"key\":\"a\",\"payload\":{\"n\":1}}",
          "{\"type\":\"payment\",\"key\":\"a\",\"payload\":{\"n\":2}}",
          "nonsense",
          "{\"type\":\"Payment\",\"key\":\"b\",\"payload\":1}",
          `{"type":"payment","key":"b","payload":${arrays(100_000)}}`,
          "{\"type\":\"payment\",\"key\":\"a\",\"payload\":{\"n\":1}}"
        ].join("\n")
        const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "batch-")), "requests.ndjson")
        fs.writeFileSync(file, lines)
        const args = (from: string) => ["operations", "accept", "--grant", grant_id, "--from", from]
        const fromStdin = yield* run(args("-"), env, lines)
        assert.strictEqual(fromStdin.code, 1)
        assert.strictEqual(fromStdin.stderr, "error: 4 lines were not accepted\n")
        const answers = fromStdin.stdout.trim().split("\n").map((line) =>
          JSON.parse(line) as {
            created?: boolean
            line?: number
            error?: { code: string; message: string }
            operation?: Operation
          }
        )
        assert.deepStrictEqual([answers[0]!.created, answers[5]!.created], [true, false])
        assert.deepStrictEqual(answers.map(({ line }) => line), [undefined, 2, 3, 4, 5, undefined])
        assert.strictEqual(answers[1]!.error!.code, "binding_conflict")
        const tooDeep = `the payload is nested more than 64 levels deep; payload${
          ".0".repeat(64)
        }: Expected at most 64 levels of arrays and objects`
        assert.deepStrictEqual(answers[4]!.error, { code: "invalid_financial_request", message: tooDeep })
        const deep = ["operations", "accept", "--grant", grant_id, "--type", "payment", "--key", "b", "--payload", "-"]
        assert.strictEqual(yield* refused(deep, env, arrays(50_000)), `error: ${tooDeep}\n`)
        const { id } = answers[0]!.operation!
        const evidence = ["operations", "advance", id, "--to", "submitting", "--reason", "a test", "--evidence", "-"]
        assert.include(yield* refused(evidence, env, arrays(50_000)), "with this evidence: Expected object")
        const fromFile = yield* run(args(file), env)
        assert.strictEqual(JSON.parse(fromFile.stdout.split("\n")[0]!).operation.id, answers[0]!.operation!.id)
        fs.rmSync(path.dirname(file), { recursive: true })
      })
    ))

  it.live("answers a file of 248 lines in order, in batches of any size, and each line when the grant is revoked", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const { grant_id } = yield* issue(env)
        const lines = Array.from({ length: 248 }, (_, n) =>
          n % 50 === 7
            ? "nonsense"
            : n % 50 === 8
            ? ""
            : JSON.stringify({ type: "payment", key: `k${n % 241}`, payload: {} }))
        const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "batch-")), "requests.ndjson")
        fs.writeFileSync(file, lines.join("\n"))
        const accepting = Effect.map(
          run(["operations", "accept", "--grant", grant_id, "--from", file], env),
          ({ stdout, ...rest }) => ({
            ...rest,
            answers: stdout.trim().split("\n").map((line) =>
              JSON.parse(line) as { created?: boolean; line?: number; error?: { code: string }; operation?: Operation }
            )
          })
        )
        const first = yield* accepting
        assert.strictEqual(first.stderr, "error: 5 lines were not accepted\n")
        const numbers = lines.flatMap((line, n) => line === "" ? [] : [n])
        const expected = numbers.map((n) => lines[n] === "nonsense" ? n + 1 : n < 241)
        assert.deepStrictEqual(first.answers.map(({ created, line }) => line ?? created), expected)
        const operationOf = new Map(numbers.map((n, at) => [n, first.answers[at]!.operation?.id]))
        assert.strictEqual(operationOf.get(242), operationOf.get(1))
        yield* result(["grants", "revoke", grant_id], env)
        const refused = yield* accepting
        assert.strictEqual(refused.code, 1)
        assert.strictEqual(refused.stderr, "error: 243 lines were not accepted\n")
        assert.deepStrictEqual(refused.answers.map(({ line }) => line), numbers.map((n) => n + 1))
        assert.deepStrictEqual(
          new Set(refused.answers.flatMap(({ error, line }) => lines[line! - 1] === "nonsense" ? [] : [error!.code])),
          new Set(["grant_revoked"])
        )
        fs.rmSync(path.dirname(file), { recursive: true })
      })
    ))

  it.live("reports unknown names, invalid arguments and all required flags that lack in one line, and exits with 1", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const unknown = "01900000-0000-7000-8000-000000000000"
        assert.include(yield* refused(["grants", "show", unknown], env), `there is no grant ${unknown}`)
        assert.include(yield* refused(["grants", "revoke", "nonsense"], env), "a lower-case UUID")
        assert.include(yield* refused(["clients", "deactivate", "nobody"], env), "there is no client nobody")
        assert.include(yield* refused(["providers", "connect", unknown], env), "there is no provider connection")
        assert.include(yield* refused(["operations", "show", unknown], env), "there is no operation")
        assert.include(
          yield* refused(["grants", "issue", "--owner", "o"], env),
          "Missing required flags: --subject, --client (see"
        )
        assert.include(yield* refused(["grants", "isue"], env), "Unknown subcommand")
        assert.include(
          yield* refused(
            ["grants", "issue", "--owner", "o", "--subject", "s", "--client", "c", "--expires-in", "soon"],
            env
          ),
          "such as 90s"
        )
      })
    ))

  it.live("migrates on demand, and requests it where a command may not migrate", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        assert.include(yield* refused(["clients", "activate", "client"], env), "`npm run -s gateway -- migrate`")
        assert.deepStrictEqual(yield* result(["migrate"], env), { applied: migrations })
        assert.deepStrictEqual(yield* result(["migrate"], env), { applied: [] })
      }), { empty: true }))

  it.live("has help for every command, and shell completions", () =>
    Effect.gen(function*() {
      const shown: Array<string> = []
      const left: Array<ReadonlyArray<string>> = [[]]
      for (const command of left) {
        const { code, stderr, stdout } = yield* run([...command, "--help"], {})
        const name = command.join(" ")
        assert.deepStrictEqual([code, stderr], [0, ""], name)
        assert.include(stdout, ["financial-agents-gateway", ...command].join(" "))
        shown.push(name)
        left.push(...commandsIn(stdout).map((below) => [...command, below]))
      }
      const known = ["serve", "work", "sandbox", "init", "migrate", "roles create", "grants issue", "operations accept"]
      assert.includeMembers(shown, known)
      assert.include((yield* run(["serve", "--help"], {})).stdout, "\n  npm run -s gateway -- serve --port 8080\n")
      assert.include(yield* refused(["grants"], {}), "(see npm run -s gateway -- grants --help)")
      assert.include((yield* run(["--completions", "bash"], {})).stdout, "financial-agents-gateway")
    }))
})
