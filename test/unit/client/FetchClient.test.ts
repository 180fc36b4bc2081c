/**
 * The client on `fetch` throws errors that say what to do and hold no secret, ends as its signal says, and takes only options that
 * make sense. The tests run it over scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { vi } from "vitest"
import {
  type Client,
  type ClientOptions,
  ConnectionError,
  ContractError,
  createClient,
  ProblemError,
  type Retry
} from "../../../src/client/FetchClient.ts"

import {
  baseUrl,
  cut,
  id,
  json,
  lost,
  operation,
  page,
  problem,
  read,
  type Reply,
  scripted,
  silent,
  text,
  unchanged
} from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"

const accepted = operation("accepted")
const realTime = { now: () => 0, sleep: () => Promise.resolve() }

const clientOf = (reply: Reply, options: Partial<ClientOptions> = {}) => {
  const { fetch, received } = scripted(realTime, [reply])
  return {
    client: createClient({ baseUrl, accessToken: "secret-token", fetch, onRetry: () => {}, ...options }),
    received
  }
}

const failureOf = async (call: () => Promise<unknown>): Promise<Error> => {
  try {
    await call()
  } catch (error) {
    assert.instanceOf(error, Error)
    return error
  }
  throw new Error("the call succeeded")
}

const calls: ReadonlyArray<readonly [string, (client: Client, signal: AbortSignal) => Promise<unknown>]> = [
  ["get", (client, signal) => client.get(id, { signal })],
  ["limits", (client, signal) => client.limits({ signal })],
  ["list", (client, signal) => client.list({}, { signal })],
  ["listAll", (client, signal) => client.listAll({}, { signal }).next()],
  ["findByKey", (client, signal) => client.findByKey("key", { signal })],
  ["follow", (client, signal) => client.follow(id, { signal }).next()],
  ["submit", (client, signal) => client.submit("/v1/payments", { key: "key", payload: {} }, { signal }).next()],
  ["settled", (client, signal) => client.settled(id, { signal })],
  ["changes", (client, signal) => client.changes(null, {}, { signal }).next()]
]

describe("The client on fetch", () => {
  it("reads an operation, limits, a page of a list, and all pages", async () => {
    assert.deepStrictEqual(await clientOf(read(accepted)).client.get(id), accepted)
    const limited = clientOf(json({ limits: [] }))
    assert.deepStrictEqual(await limited.client.limits(), { limits: [] })
    assert.strictEqual(limited.received[0]!.target, "/v1/limits")
    const { fetch, received } = scripted(realTime, [
      json({ operations: [accepted], next_page_token: "n&xt" }),
      json({ operations: [operation("failed", 2)], next_page_token: null })
    ])
    const client = createClient({ baseUrl: `${baseUrl}/`, accessToken: "secret-token", fetch })
    const states: Array<string> = []
    for await (const { state } of client.listAll({ state: ["accepted", "failed"], page_size: 1 })) states.push(state)
    assert.deepStrictEqual(states, ["accepted", "failed"])
    const filters = "state=accepted&state=failed&page_size=1"
    assert.deepStrictEqual(received.map(({ target }) => target), [
      `/v1/operations?${filters}`,
      `/v1/operations?${filters}&page_token=n%26xt`
    ])
  })

  it("repeats a submission with the same key and body after lost answers, and follows its operation to the end", async () => {
    await using scene = scriptedScene()
    const { fetch, received } = scripted(scene, [
      lost,
      problem("service_unavailable"),
      cut(202),
      json(accepted, {}, 202),
      read(accepted),
      read({ ...accepted, under_review: true }),
      read(operation("submitting", 2)),
      read(operation("succeeded", 3))
    ])
    const states: Array<string> = []
    const follow = async () => {
      const submission = { key: "a \"key\"".replace(" ", "-"), payload: { amount: "1.00" } }
      for await (const { state, under_review } of scene.makeClient(fetch).submit("/v1/payments", submission)) {
        states.push(under_review ? `${state}, under review` : state)
      }
    }
    await scene.until(follow())
    assert.deepStrictEqual(states, ["accepted", "accepted, under review", "submitting", "succeeded"])
    const posts = received.filter(({ method }) => method === "POST")
    assert.lengthOf(posts, 4)
    for (const { body, key, redirect, target } of posts) {
      assert.deepStrictEqual(
        [target, key, body, redirect],
        ["/v1/payments", "\"a-\\\"key\\\"\"", "{\"amount\":\"1.00\"}", "manual"]
      )
    }
  })

  it("sends no submission with a malformed key, path or payload", async () => {
    const { client, received } = clientOf(json(accepted, {}, 202))
    for (const key of ["", "two words", "é", "x".repeat(256)]) {
      assert.throws(() => client.submit("/v1/payments", { key, payload: {} }), /key must have/)
    }
    for (const key of ["\"key\"", "\"\""]) {
      assert.throws(() => client.submit("/v1/payments", { key, payload: {} }), /must not begin and end with a quote/)
    }
    const misspelt = { idempotencyKey: "key", payload: {} } as never
    assert.throws(
      () => client.submit("/v1/payments", misspelt),
      /takes a path and \{ key, payload \}: the key is missing/
    )
    const unknown = { key: "key", payload: {}, within: 5 } as never
    assert.throws(() => client.submit("/v1/payments", unknown), /within is none of them\. createClient takes within/)
    for (const path of ["v1", "//elsewhere.test/", "/a?b", "/a#b", "/\\elsewhere.test"]) {
      assert.throws(() => client.submit(path, { key: "key", payload: {} }), /path must be/)
    }
    assert.throws(() => client.submit("/v1", { key: "key", payload: undefined }), /payload must be JSON/)
    assert.lengthOf(received, 0)
  })

  it.each(calls.filter(([name]) => !["get", "limits", "list", "listAll"].includes(name)))(
    "%s fails within the time that is set for failing requests, and names the address",
    async (_, call) => {
      await using scene = scriptedScene()
      const { fetch } = scripted(scene, [lost])
      const client = scene.makeClient(fetch, { within: 10 })
      const error = await scene.until(failureOf(() => call(client, new AbortController().signal)))
      assert.match(
        error.message,
        /no complete answer from https:\/\/gateway\.test: fetch failed: read ECONNRESET(\.|$)/
      )
      assert.closeTo(scene.now(), 10, 0.5)
    }
  )

  it("warns once of a request that has failed for five seconds, and tells the hook of each repetition instead", async () => {
    await using scene = scriptedScene()
    const warn = vi.spyOn(console, "warn").mockReturnValue()
    const submit = (options: Partial<ClientOptions>) => {
      const { fetch } = scripted(scene, [lost])
      const client = createClient({ baseUrl, accessToken: "t", fetch, ...options })
      return scene.until(failureOf(() => client.submit("/v1/payments", { key: "key", payload: {} }).next()))
    }
    await submit({})
    assert.lengthOf(warn.mock.calls, 1)
    assert.match(String(warn.mock.calls[0]), /no complete answer from https:\/\/gateway\.test/)
    await submit({ within: 4 })
    const retries: Array<Retry> = []
    await submit({ onRetry: (retry) => retries.push(retry) })
    assert.lengthOf(warn.mock.calls, 1)
    // Of each request of an iteration.
    const outage = [...Array.from({ length: 4 }, () => lost), page([], "t")]
    const { fetch } = scripted(scene, [...outage, ...outage, problem("grant_revoked")])
    const changes = createClient({ baseUrl, accessToken: "t", fetch }).changes()
    await scene.until(failureOf(async () => {
      for await (const _ of changes);
    }))
    assert.lengthOf(warn.mock.calls, 3)
    assert.deepStrictEqual(retries.slice(0, 3).map(({ failures, pause }) => [failures, pause]), [[1, 0.5], [2, 1], [
      3,
      2
    ]])
    assert.deepStrictEqual(retries.slice(0, 3).map(({ elapsed }) => Math.round(elapsed * 2) / 2), [0, 0.5, 1.5])
    warn.mockRestore()
  })

  it("keeps the path of the base URL, and gives members of later gateways", async () => {
    const { client, received } = clientOf(json({ ...accepted, later: 1 }), { baseUrl: `${baseUrl}/bank/` })
    const found: object = await client.get(id)
    assert.deepStrictEqual(found, { ...accepted, later: 1 })
    assert.deepStrictEqual(received.map(({ target }) => target), [`/bank/v1/operations/${id}`])
  })

  it("asks the function for the access token before each request, and fails with its error", async () => {
    let asked = 0
    const { client, received } = clientOf(read(accepted), { accessToken: async () => `token-${++asked}` })
    await client.get(id)
    await client.get(id)
    assert.deepStrictEqual(received.map(({ authorization }) => authorization), ["Bearer token-1", "Bearer token-2"])
    const expired = new Error("log in again")
    const failing = clientOf(read(accepted), { accessToken: () => Promise.reject(expired) })
    assert.strictEqual(await failureOf(() => failing.client.settled(id)), expired)
    assert.lengthOf(failing.received, 0)
  })

  it("sends its access token as its only credential, and no cookie", async () => {
    const { client, received } = clientOf(read(accepted))
    await client.get(id)
    assert.deepStrictEqual(received.map(({ credentials }) => credentials), ["omit"])
  })

  it("throws a problem with its members, and with Retry-After", async () => {
    const refused = clientOf(problem("rate_limited", { "retry-after": "9" }))
    const error = await failureOf(() => refused.client.get(id))
    assert.instanceOf(error, ProblemError)
    assert.deepInclude(error, { code: "rate_limited", status: 429, retryable: true, retryAfter: 9, fields: null })
    assert.match(error.message, /^Rate limited: .* \(rate_limited, request request-id-1\)$/)
  })

  it("names the fields of a problem in its message", async () => {
    const fields = [{ path: "body.amount", message: "Expected an amount" }, {
      path: "query.x",
      message: "Expected none"
    }]
    const refused = clientOf(problem("invalid_request", {}, { fields }))
    const { message } = await failureOf(() => refused.client.get(id))
    assert.match(message, /\. body\.amount: Expected an amount; query\.x: Expected none \(invalid_request, request /)
  })

  it("takes problems with codes of later gateways as they say", async () => {
    const later = (retryable: boolean) =>
      problem("internal_error", {}, { code: "later_code", title: "Later", status: 409, retryable })
    const error = await failureOf(() => clientOf(later(false)).client.settled(id))
    assert.instanceOf(error, ProblemError)
    assert.deepInclude(error, { code: "later_code", status: 409, retryable: false, retryAfter: null })
    await using scene = scriptedScene()
    const { fetch, received } = scripted(scene, [later(true), read(operation("succeeded"))])
    await scene.until(createClient({ baseUrl, accessToken: "t", fetch }).settled(id))
    assert.lengthOf(received, 2)
  })

  it("throws an error that says what is wrong with an answer", async () => {
    const messages: ReadonlyArray<readonly [Reply, string]> = [
      [text(200, "<h1>Welcome</h1>"), `GET /v1/operations/${id}: the answer is not JSON. Check the base URL`],
      [json({ ...accepted, revision: "1" }), `GET /v1/operations/${id}: the answer breaks the contract at revision`],
      [
        text(404, "Not found"),
        `GET /v1/operations/${id}: status 404 without a problem of the gateway. Check the base URL`
      ]
    ]
    for (const [reply, message] of messages) {
      const error = await failureOf(() => clientOf(reply).client.get(id))
      assert.instanceOf(error, ContractError)
      assert.strictEqual(error.message, message)
    }
    const list = await failureOf(() => clientOf(json({ operations: [{}], next_page_token: null })).client.list())
    assert.match(list.message, /breaks the contract at operations$/)
    const limits = await failureOf(() => clientOf(json({ limits: {} })).client.limits())
    assert.match(limits.message, /breaks the contract at limits$/)
    const untagged = await failureOf(() => clientOf(json(accepted)).client.settled(id))
    assert.match(untagged.message, /no ETag/)
  })

  it("says after a spoilt answer to a request for work that it may be recorded", async () => {
    for (const reply of [text(202, "<html>"), text(200, "<html>"), text(500, ""), text(404, ""), json(accepted)]) {
      const { client } = clientOf(reply)
      const error = await failureOf(() => client.submit("/v1/payments", { key: "key", payload: {} }).next())
      assert.instanceOf(error, ContractError)
      assert.match(
        error.message,
        /^POST \/v1\/payments: .*\. Whether the request was recorded is unknown: repeat it with the same key/
      )
    }
  })

  it.each(calls)("%s takes no 304 without having named a tag", async (_, call) => {
    const { client } = clientOf(unchanged(accepted))
    const error = await failureOf(() => call(client, new AbortController().signal))
    assert.instanceOf(error, ContractError)
    assert.match(error.message, /status 304 without a problem of the gateway/)
  })

  it("quotes no access token in an error, not even if fetch does", async () => {
    const quoting = (async (_url, init) => {
      throw new TypeError(`cannot send ${JSON.stringify(init?.headers)}`, { cause: new Error("Bearer secret-token") })
    }) satisfies typeof globalThis.fetch
    const lost = await failureOf(() => clientOf(silent, { fetch: quoting }).client.get(id))
    assert.instanceOf(lost, ConnectionError)
    assert.isUndefined(lost.cause)
    // The global fetch quotes headers that it cannot send.
    for (const accessToken of ["secret\ntoken", "secret-tökén", ""]) {
      const error = await failureOf(() => createClient({ baseUrl, accessToken }).get(id))
      assert.strictEqual(error.message, "the access token is empty, or has characters that no header can carry")
    }
    assert.notMatch(`${lost.message}${lost.stack}`, /secret/)
  })

  it.each(calls)("%s ends with the reason of its signal, and leaves no timer and no listener", async (_, call) => {
    for (const reply of [silent, problem("service_unavailable", { "retry-after": "60" })]) {
      await using scene = scriptedScene()
      const { fetch, received, running } = scripted(scene, [reply])
      const controller = new AbortController()
      const added = vi.spyOn(controller.signal, "addEventListener")
      const removed = vi.spyOn(controller.signal, "removeEventListener")
      const result = failureOf(() => call(createClient({ baseUrl, accessToken: "t", fetch }), controller.signal))
      await scene.until(scene.sleep(1))
      const reason = new Error("enough")
      controller.abort(reason)
      const error = await scene.until(result)
      // `get` and `list` do not repeat: the problem ended them before.
      if (error !== reason) assert.instanceOf(error, ProblemError)
      else assert.lengthOf(received, 1)
      assert.deepStrictEqual([running(), vi.getTimerCount()], [0, 0])
      // `fetch` of the fixture passes options.
      const listeners = added.mock.calls.filter(([, , options]) => options === undefined).map(([, listener]) =>
        listener
      )
      assert.isAtLeast(listeners.length, 1)
      const gone = removed.mock.calls.map(([, listener]) => listener)
      assert.deepStrictEqual(listeners.filter((listener) => !gone.includes(listener)), [])
    }
  })

  it.each(calls)("%s sends nothing if its signal aborted before", async (_, call) => {
    const { client, received } = clientOf(read(accepted))
    const reason = new Error("too late")
    assert.strictEqual(await failureOf(() => call(client, AbortSignal.abort(reason))), reason)
    assert.lengthOf(received, 0)
  })

  it("ends with the reason of its signal, even if fetch ignores it", async () => {
    const controller = new AbortController()
    const client = createClient({ baseUrl, accessToken: "t", fetch: () => new Promise(() => {}) })
    const result = failureOf(() => client.settled(id, { signal: controller.signal }))
    controller.abort(new Error("enough"))
    assert.strictEqual((await result).message, "enough")
  })

  it("sends nothing before the first step of an iteration, and is over after it was left", async () => {
    const { client, received } = clientOf(page([accepted], "b"))
    const changes = client.changes()
    assert.lengthOf(received, 0)
    assert.strictEqual((await changes.next()).done, false)
    await changes.return!()
    assert.deepStrictEqual(await changes.next(), { done: true, value: undefined })
    assert.lengthOf(received, 1)
  })

  it("refuses a base URL, a wait, an id and a key that name nothing", async () => {
    // URL parsers take `localhost:` for a scheme.
    for (const wrong of ["", "gateway", "localhost:3000", "//gateway.example", "http://", "ftp://gateway.example"]) {
      assert.throws(() => createClient({ baseUrl: wrong, accessToken: "t" }), /baseUrl must be a URL/, wrong)
    }
    for (const wait of [-1, 61, 1.5, Number.NaN]) {
      assert.throws(() => createClient({ baseUrl, accessToken: "t", wait }), /wait must be a whole number of seconds/)
    }
    const { client, received } = clientOf(json({ operations: [accepted], next_page_token: null }))
    for (const wrong of ["", "..", "changes", `${id}/x`]) {
      assert.match((await failureOf(() => client.get(wrong))).message, /id must be the id of an operation/)
      assert.match((await failureOf(() => client.settled(wrong))).message, /id must be the id of an operation/)
    }
    assert.match((await failureOf(() => client.findByKey(""))).message, /key must be an idempotency key/)
    assert.lengthOf(received, 0)
  })
})
