/**
 * The engine of the clients repeats requests after the failures that may pass, within limits, and after no others. The client on
 * `fetch` runs it over scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import type { ProblemCode } from "../../../src/api/ProblemKinds.ts"
import { ConnectionError } from "../../../src/client/ClientErrors.ts"
import { type Limits, repeat } from "../../../src/client/Engine.ts"
import type { Client } from "../../../src/client/FetchClient.ts"
import {
  cut,
  id,
  json,
  lost,
  operation,
  problem,
  read,
  type Reply,
  scripted,
  silent,
  text
} from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"

const final = read(operation("succeeded"))

/** What a call came to, and the pauses between its requests. */
const called = async (
  replies: ReadonlyArray<Reply>,
  call: (client: Client) => Promise<unknown> = (client) => client.settled(id)
) => {
  await using scene = scriptedScene()
  const { fetch, received, running } = scripted(scene, replies)
  const client = scene.makeClient(fetch)
  const [outcome] = await scene.until(Promise.allSettled([call(client)]))
  assert.strictEqual(running(), 0)
  assert.isTrue(
    received.every(({ authorization, method }) => method === "GET" && authorization === "Bearer secret-token")
  )
  return { outcome, received, pauses: received.slice(1).map(({ at }, n) => at - received[n]!.at) }
}

const succeeds = async (failures: ReadonlyArray<Reply>) => {
  const { outcome, pauses } = await called([...failures, final])
  assert.strictEqual(outcome.status, "fulfilled")
  return pauses
}

const calls: ReadonlyArray<readonly [name: string, call: (client: Client) => Promise<unknown>]> = [
  ["settled", (client) => client.settled(id)],
  ["follow", (client) => client.follow(id).next()],
  ["changes", (client) => client.changes().next()],
  ["findByKey", (client) => client.findByKey("key")]
]

const stopping: ReadonlyArray<ProblemCode> = [
  "grant_revoked",
  "client_inactive",
  "provider_disconnected",
  "invalid_token",
  "insufficient_scope",
  "invalid_request",
  "internal_error"
]

describe("The engine repeats requests", () => {
  it("after a random pause that doubles up to 30 seconds, after any failure of the connection", async () => {
    const { pauses } = await called([...Array<Reply>(7).fill(lost), final])
    assert.deepStrictEqual(pauses, [0.5, 1, 2, 4, 8, 15, 15])
  })

  it("after Retry-After and the random pause", async () => {
    const busy = problem("service_unavailable", { "retry-after": "7" })
    const limited = problem("rate_limited", { "retry-after": "1800" })
    assert.deepStrictEqual(await succeeds([busy, limited, problem("not_ready")]), [7.5, 1801, 2])
  })

  it("after a body that ends early, of an answer and of a problem", async () => {
    assert.deepStrictEqual(await succeeds([cut(), cut(503), cut(401)]), [0.5, 1, 2])
  })

  it("after the failures of proxies, and as they advise", async () => {
    const page = "<h1>Bad gateway</h1>"
    assert.deepStrictEqual(
      await succeeds([
        text(502, page),
        text(503, page, { "retry-after": "3" }),
        text(504, page),
        text(429, page)
      ]),
      [0.5, 4, 2, 4]
    )
  })

  it("when no answer came within 30 seconds after the wait", async () => {
    assert.deepStrictEqual(await succeeds([silent]), [30.5])
  })

  it.each(stopping)("not after %s: the call fails with the problem", async (code) => {
    for (const [name, call] of calls) {
      const { outcome, received } = await called([problem(code)], call)
      assert.deepInclude(outcome.status === "rejected" ? outcome.reason : null, { code, retryable: false }, name)
      assert.lengthOf(received, 1, name)
    }
  })

  it("not after an answer that breaks the contract", async () => {
    const wrong = [
      text(200, "<h1>Welcome</h1>"),
      json({ id }),
      json([]),
      text(404, "Not found"),
      text(418, "Tea"),
      text(500, "Failed")
    ]
    for (const reply of wrong) {
      const { outcome, received } = await called([reply])
      assert.strictEqual(outcome.status, "rejected")
      assert.lengthOf(received, 1)
    }
  })

  it("not in `get`, which fails with the first failure", async () => {
    for (const reply of [lost, problem("service_unavailable")]) {
      const { outcome, received } = await called([reply], (client) => client.get(id))
      assert.strictEqual(outcome.status, "rejected")
      assert.lengthOf(received, 1)
    }
  })

  it("of the operation bound to a key, and gives null if there is none", async () => {
    const found = operation("submitting", 2)
    const bound = await called(
      [lost, json({ operations: [found], next_page_token: null })],
      (client) => client.findByKey("rent/2026&more=1")
    )
    assert.deepStrictEqual(bound.outcome, { status: "fulfilled", value: found })
    const { searchParams } = new URL(bound.received[1]!.target, "https://gateway.test")
    assert.deepStrictEqual([...searchParams], [["idempotency_key", "rent/2026&more=1"]])
    const none = await called(
      [json({ operations: [], next_page_token: null })],
      (client) => client.findByKey("other")
    )
    assert.deepStrictEqual(none.outcome, { status: "fulfilled", value: null })
  })
})

/** Seconds until an attempt fails, and the seconds of its `Retry-After`. Null: no answer ever comes. */
type Failing = readonly [after: number, retryAfter: number | null] | null

/** Repeats attempts that fail in order, the last one again and again: the failure, and when each attempt began with which wait. */
const repeated = async (limits: Limits, failing: ReadonlyArray<Failing>) => {
  await using scene = scriptedScene()
  const attempts: Array<readonly [at: number, prefer: string | undefined]> = []
  let running = 0
  const call = repeat(
    async ({ prefer }, signal) => {
      attempts.push([scene.now(), prefer])
      running++
      signal.addEventListener("abort", () => running--)
      const failure = failing[Math.min(attempts.length, failing.length) - 1]!
      if (failure === null) return await new Promise<never>(() => {})
      const [after, retryAfter] = failure
      if (after > 0) await scene.sleep(after)
      running--
      throw new ConnectionError("lost", retryAfter)
    },
    limits,
    new AbortController().signal
  )
  const failure = await scene.until(call.catch(String))
  assert.strictEqual(running, 0)
  return { attempts, failure, ended: scene.now() }
}

describe("The engine, within limits,", () => {
  it.each<[name: string, limits: Limits, failing: ReadonlyArray<Failing>, times: ReadonlyArray<number>, ended: number]>(
    [
      ["begins the last attempt when the time is over", { within: 8 }, [[0, null]], [0, 0.5, 1.5, 3.5, 7.5, 8], 8],
      ["does not repeat if Retry-After is longer than the time that is left", { within: 8 }, [[0, 9]], [0], 0],
      ["waits for a Retry-After that is not", { within: 8 }, [[0, 7], [0, 2]], [0, 7.5], 7.5],
      ["gives an attempt up after the time for an answer", { wait: 20, answerTime: 10, within: 28 }, [null], [0], 30]
    ]
  )("%s", async (_, limits, failing, times, ended) => {
    const result = await repeated(limits, failing)
    assert.deepStrictEqual([result.attempts.map(([at]) => at), result.ended], [times, ended])
    assert.match(
      result.failure,
      failing[0] === null ? /no complete answer within 30 seconds/ : /^ConnectionError: lost$/
    )
  })

  it("asks for the rest of the wait after a lost connection, and at least for a second", async () => {
    const { attempts } = await repeated({ wait: 20, within: 28 }, [[12, null], [7, null], [2, null], [9, null]])
    assert.deepStrictEqual(attempts, [[0, "wait=20"], [12.5, "wait=8"], [20.5, "wait=1"], [24.5, "wait=1"]])
  })
})
