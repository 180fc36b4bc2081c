/** The command line names the member of a payload that is nested too deep. `unit/server/DeepJson` has the rules. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { result, run, urlOf } from "../../fixtures/processes/CommandLine.ts"

const arrays = (levels: number): string => "[".repeat(levels) + "]".repeat(levels)

/** The answer of the command line to one line of a batch. */
interface Answer {
  readonly line?: number
  readonly created?: boolean
  readonly error?: object
  readonly operation?: { readonly id: string }
}

describe("The command line", () => {
  it.live("names the member of a payload that is too deep, accepts the other lines of a batch, and refuses deep evidence", () =>
    Effect.gen(function*() {
      const env = { DATABASE_URL: urlOf(yield* createDatabase()) }
      const names = ["--owner", "owner", "--subject", "subject", "--client", "client"]
      const { grant_id } = yield* result<{ readonly grant_id: string }>(["grants", "issue", ...names], env)
      const accepting = ["operations", "accept", "--grant", grant_id]
      const refusal = `the payload is nested more than 64 levels deep; payload${
        ".0".repeat(64)
      }: Expected at most 64 levels of arrays and objects`
      const one = [...accepting, "--type", "payment", "--key", "deep", "--payload", "-"]
      assert.deepStrictEqual(yield* run(one, env, arrays(50_000)), {
        code: 1,
        stdout: "",
        stderr: `error: ${refusal}\n`
      })
      const line = (key: string, payload: string) => `{"type":"payment","key":"${key}","payload":${payload}}`
      const batch = [line("a", arrays(64)), line("b", arrays(100_000)), line("c", "1")].join("\n")
      const { code, stdout } = yield* run([...accepting, "--from", "-"], env, batch)
      assert.strictEqual(code, 1)
      const answers = stdout.trimEnd().split("\n").map((text) => JSON.parse(text) as Answer)
      assert.deepStrictEqual(answers.map(({ created }) => created), [true, undefined, true])
      const failing = ["--to", "failed", "--reason", "a test", "--evidence", "-"]
      const advancing = ["operations", "advance", answers[0]!.operation!.id, ...failing]
      assert.deepStrictEqual(yield* run(advancing, env, arrays(50_000)), {
        code: 1,
        stdout: "",
        stderr: "error: invalid value: --evidence: Expected object\n"
      })
      assert.deepStrictEqual(answers[1], { line: 2, error: { code: "invalid_financial_request", message: refusal } })
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
