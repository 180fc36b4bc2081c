/**
 * The command `sandbox` keeps every answered receipt and starts only with valid faults. The tests run it as a process,
 * and kill it.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { controlPortOf } from "../../../src/cli/SandboxCommand.ts"
import { launch, run } from "../../fixtures/processes/CommandLine.ts"
import { call, dial, read, submissionBytes, submit, told } from "../../fixtures/sandbox/SandboxHarness.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"
import { until } from "../../fixtures/until.ts"

const Listening = Schema.fromJsonString(Schema.Struct({
  message: Schema.Literal("Listening"),
  annotations: Schema.Struct({ url: Schema.String, control_url: Schema.String })
}))

const anyPorts = ["sandbox", "--port", "0", "--control-port", "0"]

/** The command, once it listens. */
const launchSandbox = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const { output, stop } = yield* launch([...anyPorts, ...args], {}, ({ stderr }) => stderr.includes("\n"))
  const { annotations } = yield* Schema.decodeEffect(Listening)(output.stderr.split("\n")[0]!)
  return { url: annotations.url, controlUrl: annotations.control_url, stop }
})

describe("The command sandbox", () => {
  it.effect("has its control port after its port, and refuses one port for both", () =>
    Effect.gen(function*() {
      const chosen = [[0, 0], [4010, 4011], [4011, 4012], [65_535, 65_534]] as const
      for (const [port, control] of chosen) {
        assert.strictEqual(yield* controlPortOf(port, Option.none()), control)
      }
      assert.strictEqual(yield* controlPortOf(4010, Option.some(0)), 0)
      const { message } = yield* Effect.flip(controlPortOf(4010, Option.some(4010)))
      assert.strictEqual(message, "--control-port: 4010 is the port of the provider; specify another one")
    }))

  it.live("keeps every answered receipt through kill -9 in the middle of many", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const first = yield* launchSandbox(["--record", record, "--seed", "x"])
      const answered = new Map<string, unknown>()
      const load = yield* Effect.forkScoped(Effect.forEach(
        Array.from({ length: 2000 }, (_, n) => `key-${n}`),
        (key) =>
          Effect.map(submit(first.url, key), ({ error, json }) => {
            if (error === undefined) answered.set(key, json)
          }),
        { concurrency: 32, discard: true }
      ))
      yield* until(() => answered.size >= 100)
      yield* first.stop("SIGKILL")
      yield* until(() => load.pollUnsafe() !== undefined)
      assert.isBelow(answered.size, 2000)

      const second = yield* launchSandbox(["--record", record, "--seed", "x"])
      yield* Effect.forEach(
        answered,
        ([key, answer]) =>
          Effect.gen(function*() {
            assert.deepInclude((yield* call(`${second.controlUrl}/truth/${key}`)).json, { receipts: 1 })
            assert.deepStrictEqual((yield* submit(second.url, key)).json, answer)
          }),
        { concurrency: 32, discard: true }
      )
    }))

  it.live("on SIGTERM refuses new connections, drops late answers, and exits with 0 and a complete record", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const { stop, url } = yield* launchSandbox(["--record", record])
      const late = told({ outcome: "succeeded", faults: { late: true } })
      const waiting = yield* Effect.forkScoped(dial(url, submissionBytes("late", late)))
      yield* until(() => fs.readFileSync(record, "utf8").endsWith("\n"))
      assert.strictEqual((yield* submit(url, "done", told({ outcome: "succeeded" }))).status, 200)
      assert.strictEqual(yield* stop("SIGTERM"), 0)
      yield* until(() => waiting.pollUnsafe() !== undefined)
      assert.strictEqual((yield* submit(url, "new")).error, "ECONNREFUSED")
      assert.lengthOf(fs.readFileSync(record, "utf8").split("\n"), 3)
    }))

  it.live("applies the faults of its arguments", () =>
    Effect.gen(function*() {
      const record = path.join(yield* temporaryDirectory, "record.jsonl")
      const faults = ["--fault", "not_found_for=1:60000", "--fault", "slow=0.25:10"]
      const { controlUrl, url } = yield* launchSandbox(["--record", record, ...faults])
      assert.deepStrictEqual((yield* call(`${controlUrl}/faults`)).json, {
        slow: { rate: 0.25, ms: 10 },
        not_found_for: { rate: 1, ms: 60_000 }
      })
      yield* submit(url, "a", told({ outcome: "succeeded" }))
      assert.strictEqual((yield* read(url, "a")).status, 404)
    }))

  it.live("does not start with an unknown fault, and gives the reason", () =>
    Effect.gen(function*() {
      for (const fault of ["sloth=1", "lose=1:5", "lose=2", "lose"]) {
        const { code, stderr } = yield* run([...anyPorts, "--fault", fault], {})
        assert.strictEqual(code, 1)
        assert.match(stderr, /sloth is no fault|lose: ms: |lose: rate: |NAME=RATE/)
      }
      const { stderr } = yield* run([...anyPorts, "--fault", "dropresponse=1"], {})
      assert.match(stderr, /^error: --fault: dropresponse is no fault; the faults are .*\bdrop_response\b/)
    }))

  it.live("does not start with mutual TLS without its files, and names the missing one", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const { code, stderr } = yield* run([...anyPorts, "--mutual-tls", directory], {})
      assert.strictEqual(code, 1)
      assert.match(stderr, /--mutual-tls: .*cert\.pem/)
    }))
})
