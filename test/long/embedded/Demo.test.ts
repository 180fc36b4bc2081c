/** `serve --demo` on its own PostgreSQL: what README promises of `npm start`, with a real process. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { displayWidth } from "effect/cli/CliOutput"
import { spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { stripVTControlCharacters } from "node:util"
import { isTerminal, type OperationState } from "../../../src/domain/Operation.ts"
import { getServed } from "../../fixtures/http/fetchServed.ts"
import { freePort, result, serve } from "../../fixtures/processes/CommandLine.ts"
import { settleUndecided } from "../../fixtures/processes/settleUndecided.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

/** Sends the request of a printed curl line, with the settings that the demo prints above it. */
const asFetch = (greeting: string, line: string) => {
  const [, gateway, token] = /^ {2}export GATEWAY=(\S+) TOKEN=(\S+)(?: \\)?$/m.exec(greeting)!
  const [, target] = /^ {2}curl -H "Authorization: Bearer \$TOKEN" \$GATEWAY(\S+)/.exec(line)!
  return getServed(gateway! + target!, token!)
}

interface Listed {
  readonly id: string
  readonly state: string
  readonly under_review: boolean
  readonly failure: { readonly code: string } | null
}

type Demo = Effect.Success<ReturnType<typeof serve>>

/** The lines of the terminal about operations, in their order: time, id, and state with what else is told. */
const narrated = ({ output }: Demo) =>
  [...output.stdout.matchAll(/^ {2}(\d\d:\d\d:\d\d) {2}(\S+) {2}\S+ +(.+)$/gm)].map((line) => line.slice(1))

/** Waits until the last line about the operation tells this. */
const untilTold = (demo: Demo, id: string, told: string) =>
  Effect.sync(() => narrated(demo).findLast((line) => line[1] === id)?.[2]).pipe(
    Effect.delay("50 millis"),
    Effect.repeat({ until: (last) => last === told })
  )

const toldOf = ({ failure, state, under_review }: Listed) =>
  `${state}${failure === null ? "" : ` (${failure.code})`}${under_review ? ", under review" : ""}`

/** Lines about operations, as `narrated` reads them. */
const isNarrated = (line: string) => /^ {2}\d\d:\d\d:\d\d {2}\S+ {2}\S+ +\S/.test(line)

/** A line of the log on a terminal. */
const isLogged = (line: string) => /^\d\d:\d\d:\d\d\.\d{3} [A-Z]+ /.test(line)

/** What a terminal of `npm start` shows until an operation has failed, without styles. Then Ctrl-C ends it. */
const watch = (env: Readonly<Record<string, string>>) =>
  Effect.callback<ReadonlyArray<string>, Error>((resume) => {
    let output = ""
    const { HOME, PATH } = process.env
    const terminal = spawn("script", ["-qec", "npm start", "/dev/null"], {
      // npm draws its progress over other lines, and erases it.
      env: { HOME, PATH, npm_config_progress: "false", ...env }
    })
    const lines = () => stripVTControlCharacters(output).replaceAll(/\r|\^C/gu, "").split("\n")
    terminal.stdout.on("data", (bytes: Buffer) => {
      const isEnding = output.includes("failed (")
      output += bytes.toString("utf8")
      if (!isEnding && output.includes("failed (")) terminal.stdin.write("\u0003")
    })
    terminal.on("error", (error) => resume(Effect.fail(error)))
    terminal.on("close", () => resume(Effect.succeed(lines())))
    return Effect.sync(() => void terminal.kill("SIGTERM"))
  })

describe("serve --demo", () => {
  it.live("fits a screen: links, one export, six short lines; and then logs of one line each", ({ skip }) =>
    Effect.scoped(Effect.gen(function*() {
      skip(!spawnSync("script", ["--version"], { encoding: "utf8" }).stdout?.includes("util-linux"), "no terminal here")
      const [PORT, ADMIN_PORT] = [String(yield* freePort), String(yield* freePort)]
      const lines = yield* watch({ DATA_DIR: yield* temporaryDirectory, PORT, ADMIN_PORT })
      const ends = lines.findIndex((line) => line === lines.filter(isNarrated)[9])
      const [migrated, ...log] = lines.filter(isLogged).map((line) => line.slice(13))
      // On a busy machine, workers may log before the last of the ten lines about operations.
      const screen = lines.slice(0, ends + 1).filter((line) => !isLogged(line) || line.endsWith(migrated!))
      assert.isAtMost(screen.length, 40, screen.join("\n"))
      assert.deepStrictEqual(screen.filter((line) => displayWidth(line) > 110), [])
      const address = `http://127.0.0.1:${PORT}`
      assert.includeMembers(screen, [
        `Gateway: ${address}`,
        `Documentation: ${address}/docs`,
        `Agents (MCP): ${address}/mcp`
      ])
      assert.lengthOf(screen.filter((line) => line.startsWith(`Console: http://127.0.0.1:${ADMIN_PORT}/`)), 1)
      assert.lengthOf(screen.filter((line) => line.startsWith("  export ")), 1)
      assert.lengthOf(screen.filter((line) => /^ {2}(?:curl|npm) /.test(line)), 6)
      const migrations = fs.readdirSync("migrations").filter((name) => name.endsWith(".sql"))
      const [first, last] = [migrations.at(0), migrations.at(-1)].map((name) => name!.replace(/\.sql$/, ""))
      assert.strictEqual(migrated, `INFO  Applied migrations count=${migrations.length} first=${first} last=${last}`)
      const failed = log.find((line) => line.startsWith("WARN  Operation failed "))
      assert.match(failed!, / operation_id=[0-9a-f-]{36} provider=demo-bank code=insufficient_funds$/)
      // All other lines are of the demo, so no entry of the log has a second line.
      const other = lines.slice(ends + 1).filter((line) => !isLogged(line) && !isNarrated(line))
      assert.strictEqual(other.join(""), "")
    })))

  it.live("runs on an embedded PostgreSQL with a demo that can be read and revoked, and again with another token", () =>
    Effect.scoped(Effect.gen(function*() {
      const env = { DATA_DIR: yield* temporaryDirectory, PORT: String(yield* freePort) }
      const first = yield* serve(["--demo"], env)
      const lines = first.output.stdout.split("\n")
      // The printed commands of this program find the same database in another terminal.
      const [, settings] = /^ {2}(export (?:.*\\\n)?.*)$/m.exec(first.output.stdout)!
      const pasted = spawnSync("sh", ["-c", `${settings}\nprintf %s "$DATA_DIR"`], { encoding: "utf8", env: {} })
      assert.strictEqual(pasted.stdout, env.DATA_DIR)
      const [list, limits, read] = lines.filter((line) => line.startsWith("  curl")) as [string, string, string]
      type Operations = { readonly operations: ReadonlyArray<Listed> }
      const listed = asFetch(first.output.stdout, list).pipe(
        Effect.tap(({ status }) => Effect.sync(() => assert.strictEqual(status, 200))),
        // The cast: other tests check the contract of a list. This test needs only its members.
        Effect.map(({ body }) => (body as unknown as Operations).operations)
      )
      // All operations end without help, except for one that stays uncertain, one that stays pending, and one that waits for an approval.
      const settled = yield* listed.pipe(
        Effect.delay("200 millis"),
        Effect.repeat({
          until: (operations) =>
            operations.filter(({ state }) => isTerminal(state as OperationState)).length >= 7
            && operations.some(({ state, under_review }) => state === "indeterminate" && under_review)
        })
      )
      assert.deepStrictEqual(
        settled.map(({ state }) => state).toSorted(),
        [
          // It waits for an approval.
          "accepted",
          "cancelled",
          "failed",
          "failed",
          "indeterminate",
          "submitted",
          "succeeded",
          "succeeded",
          "succeeded",
          "succeeded"
        ]
      )
      assert.match(first.output.stdout, /refused 25000\.00 EUR: the grant permits 120000\.00 EUR per day/)
      const { body: { limits: [budget] } } = (yield* asFetch(first.output.stdout, limits)) as unknown as {
        readonly body: { readonly limits: ReadonlyArray<object> }
      }
      // What was cancelled and what failed is free again.
      assert.match(
        first.output.stdout,
        /another one, of 99000\.00 EUR\. Its amount is free again then, and 116151\.00 EUR/
      )
      assert.deepInclude(budget, { remaining: "116151.00" })
      const unsent = settled.filter(({ state }) => state === "accepted" || state === "cancelled")
      assert.strictEqual(settled.length - unsent.length, 8)
      assert.match(first.output.stdout, /submit eight operations .* One was cancelled before; one waits for an app/)
      for (const operation of settled) yield* untilTold(first, operation.id, toldOf(operation))
      const uncertain = yield* asFetch(first.output.stdout, read)
      assert.deepInclude(uncertain.body, { state: "indeterminate", submission_uncertain: true, under_review: true })
      for (const state of ["submitting", "submitted", "succeeded", "failed (insufficient_funds)", "cancelled"]) {
        assert.match(first.output.stdout, new RegExp(`\\s${RegExp.escape(state)}\\n`), "the terminal shows it as well")
      }

      const pending = settled.find(({ state }) => state === "submitted")!.id
      yield* settleUndecided(pending, env)
      yield* untilTold(first, pending, "succeeded")
      const waiting = unsent.find(({ state }) => state === "accepted")!.id
      const [show, id] = /approvals show (\S+)/.exec(first.output.stdout)!
      assert.strictEqual(id, waiting)
      const { next } = yield* result<{ readonly next: string }>(show.split(" "), env)
      const [approve] = /approvals approve [^,]+/.exec(next)!
      assert.isBelow(first.output.stdout.indexOf("approvals show"), first.output.stdout.indexOf("grants revoke"))
      yield* result(approve.split(" "), env)
      yield* untilTold(first, waiting, "succeeded")
      const times = narrated(first).map(([time]) => time!)
      // After midnight the clock begins again.
      const ordered = times.map((time) => time < times[0]! ? `next day ${time}` : time)
      assert.deepStrictEqual(ordered, ordered.toSorted(), "each line has the time at which it is printed")

      const revoke = /grants revoke \S+/.exec(first.output.stdout)![0].split(" ")
      yield* result(revoke, env)
      const refused = yield* asFetch(first.output.stdout, read)
      assert.strictEqual(refused.status, 401)
      assert.deepInclude(refused.body, { code: "grant_revoked", retryable: false })

      const token = /fingw_\w+/.exec(first.output.stdout)![0]
      assert.notInclude(first.output.stderr, token)
      assert.strictEqual(yield* first.stop("SIGTERM"), 0)

      const second = yield* serve(["--demo"], env)
      for (const { id } of settled) {
        yield* untilTold(
          second,
          id,
          narrated(first).findLast((line) => line[1] === id)![2]!
        )
      }
      const [, , readAgain] = second.output.stdout.split("\n").filter((line) => line.startsWith("  curl"))
      assert.notInclude(second.output.stdout, "approvals", "it is decided")
      assert.notInclude(second.output.stdout, token, "another token")
      assert.strictEqual(
        (yield* asFetch(second.output.stdout, readAgain!)).body["id"],
        uncertain.body["id"],
        "of the same operation"
      )
      assert.strictEqual(yield* second.stop("SIGINT"), 0)
      const pid = path.join(env.DATA_DIR, "pgdata", "postmaster.pid")
      assert.isFalse(fs.existsSync(pid), "PostgreSQL is stopped with the gateway")
    })))
})
