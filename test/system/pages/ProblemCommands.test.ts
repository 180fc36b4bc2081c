/** The pages of problems show curl lines. The test runs them in `sh` against a gateway. They need curl. */
import { assert, beforeEach, layer } from "@effect/vitest"
import { Effect } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { promisify } from "node:util"
import { type ProblemCode, problemKinds } from "../../../src/api/ProblemKinds.ts"
import { problemExample } from "../../../src/server/pages/ProblemPages.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { issue } from "../../fixtures/http/HttpScene.ts"

const examples = (Object.keys(problemKinds) as ReadonlyArray<ProblemCode>)
  .map((code) => ({ code, ...problemExample(baseUrl, code) }))
  .filter(({ command }) => command !== null)

beforeEach(({ skip }) => {
  skip(spawnSync("curl", ["--version"]).status !== 0, "curl is not on the PATH, and the lines use it")
})

layer(memoryGateway(), { excludeTestServices: true })("The command on the page of a problem", (it) => {
  it.effect.each(examples)(
    "causes the problem that the page shows: $code",
    ({ body, command }) =>
      Effect.gen(function*() {
        const { port } = yield* Gateway
        const { token } = yield* issue()
        const line = command!.replaceAll(baseUrl, `http://127.0.0.1:${port}`).replace("curl", "curl -sS")
        const env = { PATH: process.env["PATH"] ?? "", TOKEN: token }
        const { stdout } = yield* Effect.promise(() => promisify(execFile)("sh", ["-c", line], { env }))
        const shown = JSON.parse(body) as Record<string, unknown>
        const { detail, request_id, ...caused } = JSON.parse(stdout) as Record<string, unknown>
        assert.deepStrictEqual({ ...caused, detail: shown["detail"], request_id: shown["request_id"] }, shown)
        assert.isString(detail)
        assert.isString(request_id)
      })
  )

  it.effect("exists for most problems that a request alone can cause", () =>
    Effect.sync(() => assert.isAbove(examples.length, 10)))
})
