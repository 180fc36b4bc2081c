/**
 * The shell lines that newcomers paste work: those of the section "Following", of the page on agents, of the first page, and those that
 * the demo prints.
 * The tests run them in `sh`, against one demo. They need curl.
 */
import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { execFile, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { promisify } from "node:util"
import { beforeEach } from "vitest"
import {
  type Check,
  checkChanges,
  checkLimits,
  checkList,
  checkOperation,
  type Operation
} from "../../../src/client/Exchange.ts"
import { shellBlocks } from "../../fixtures/Markdown.ts"
import { freePort, serve } from "../../fixtures/processes/CommandLine.ts"
import { settleUndecided } from "../../fixtures/processes/settleUndecided.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

/** A demo whose undecided transfer is settled by the line of docs/operations.md, so that no line has to wait for it. */
class Demo extends Context.Service<Demo, {
  readonly GATEWAY: string
  readonly TOKEN: string
  /** What the demo printed. */
  readonly greeting: string
}>()("test/Demo") {
  static readonly layer = Layer.effect(Demo, Effect.suspend(() => startDemo))
}

const startDemo = Effect.gen(function*() {
  const env = { DATA_DIR: yield* temporaryDirectory, PORT: String(yield* freePort) }
  const { output } = yield* serve(["--demo"], env)
  const greeting = output.stdout
  const [, GATEWAY, TOKEN] = /^ {2}export GATEWAY=(\S+) TOKEN=(\S+)(?: \\)?$/m.exec(greeting)!
  const undecided = Effect.promise(async () => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const response = await fetch(`${GATEWAY}/v1/operations?idempotency_key=demo-6`, { headers })
    // The cast: the lines of the test check the contract of this list. A busy gateway answers with a problem.
    const { operations } = await response.json() as { readonly operations?: ReadonlyArray<Operation> }
    return operations?.[0]
  })
  const { id } = (yield* undecided.pipe(
    Effect.delay("200 millis"),
    Effect.repeat({ until: (found) => found?.state === "submitted" })
  ))!
  yield* settleUndecided(id, env)
  return Demo.of({ GATEWAY: GATEWAY!, TOKEN: TOKEN!, greeting })
})

interface Answer {
  readonly status: number
  readonly body: unknown
}

/** Puts the status behind each answer, on a line of its own. On a busy machine the store may be late, and curl asks again. */
const withStatus = "curl() { command curl -sSf --retry 9 -w '\\n%{http_code}\\n' \"$@\"; }\n"

/** Runs the lines in one shell, and yields its output with the answers in it. */
const paste = ({ GATEWAY, TOKEN }: Demo["Service"], lines: string) =>
  Effect.promise(async () => {
    const env = { PATH: process.env["PATH"] ?? "", GATEWAY, TOKEN }
    const { stdout } = await promisify(execFile)("sh", ["-c", withStatus + lines], { env })
    const answers = [...stdout.matchAll(/^(.+)\n(\d{3})$/gm)].map(([, body, status]): Answer => ({
      status: Number(status),
      body: JSON.parse(body!) as unknown
    }))
    return { stdout, answers }
  })

const assertAnswers = (answers: ReadonlyArray<Answer>, checks: ReadonlyArray<Check>) => {
  assert.deepStrictEqual(answers.map(({ status }) => status), checks.map(() => 200), JSON.stringify(answers))
  answers.forEach(({ body }, at) => assert.isNull(checks[at]!(body), JSON.stringify(body)))
}

/** The result of a message to `/mcp`. */
interface ToolResult {
  readonly tools?: ReadonlyArray<{ readonly name: string }>
  readonly structuredContent?: { readonly advice: string; readonly operation: Operation }
}

const resultOf = (body: unknown) => (body as { readonly result?: ToolResult }).result

/** Null if the body is the answer of a tool for the operation whose outcome stays unknown. */
const checkToolAnswer: Check = (body) => {
  const operation = resultOf(body)?.structuredContent?.operation
  return operation?.state === "indeterminate" ? checkOperation(operation) : "no answer for an indeterminate operation"
}

/** The example of an answer in docs/agents.md. */
const shownAnswer = () => {
  const [, json] = /^### An answer\n.*?^```json\n(.*?)^```/ms.exec(fs.readFileSync("docs/agents.md", "utf8"))!
  return JSON.parse(json!) as Required<ToolResult>["structuredContent"]
}

/** The operations of an answer that has been checked. */
const operationsOf = (answer: Answer | undefined) =>
  (answer!.body as { readonly operations: ReadonlyArray<Operation> }).operations

const assertWaited = (answer: Answer | undefined) =>
  assert.deepInclude(answer!.body, { state: "succeeded", terminal: true })

// Together, because most of them wait for a change.
describe.concurrent("Pasted lines", () => {
  beforeEach(({ skip }) => {
    skip(spawnSync("curl", ["--version"]).status !== 0, "curl is not on the PATH, and the lines use it")
  })

  layer(Demo.layer, { excludeTestServices: true })((it) => {
    it.effect("of docs/operations.md, \"Following\": find by key, wait, read the feed and wait for its next change", () =>
      Effect.gen(function*() {
        const [settings, ...lines] = shellBlocks("docs/operations.md", "## Following")
        assert.strictEqual(settings, "GATEWAY=http://127.0.0.1:3000\nTOKEN=fingw_…\n", "the demo prints other ones")
        const { answers } = yield* paste(yield* Demo, lines.join(""))
        assertAnswers(answers, [checkList, checkOperation, checkChanges, checkChanges])
        const [byKey, waited, page] = answers
        assert.lengthOf(operationsOf(byKey), 1)
        assertWaited(waited)
        assert.lengthOf(operationsOf(page), 5)
      }))

    it.effect("of docs/agents.md, \"Try it\": list the tools and call one", () =>
      Effect.gen(function*() {
        const demo = yield* Demo
        const [lines] = shellBlocks("docs/agents.md", "## Try it").filter((block) => block.includes("curl"))
        const atDemo = lines!.replaceAll("http://127.0.0.1:3000", demo.GATEWAY)
        const { answers } = yield* paste(demo, atDemo)
        assertAnswers(answers, [(body) => Array.isArray(resultOf(body)?.tools) ? null : "no tools", checkToolAnswer])
        const answered = resultOf(answers[1]!.body)!.structuredContent!
        const shown = shownAnswer()
        assert.deepStrictEqual(Object.keys(answered), Object.keys(shown))
        assert.deepStrictEqual(Object.keys(answered.operation), Object.keys(shown.operation))
      }))

    it.effect("of README.md and of the demo: read, and read the feed", () =>
      Effect.gen(function*() {
        const demo = yield* Demo
        const readme = [...fs.readFileSync("README.md", "utf8").matchAll(/^ {4}curl .*\n/gm)].map(([line]) => line)
        assertAnswers((yield* paste(demo, readme.join(""))).answers, [checkList, checkChanges])

        const printed = [...demo.greeting.matchAll(/^ {2}curl.*\n/gm)].map(([line]) => line)
        const { answers } = yield* paste(demo, printed.join(""))
        assertAnswers(answers, [checkList, checkLimits, checkOperation, checkChanges])
        const [all, , , feed] = answers
        assert.lengthOf(operationsOf(all), 10)
        assert.lengthOf(operationsOf(feed), 10)
      }))
  })
})
