/**
 * An access token reaches no log line of the gateway and no answer to a message, also if an agent puts it in a wrong place. The test
 * runs the gateway as a process at its most talkative log level, and searches all that it writes and answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { accept, issue } from "../../fixtures/ledger/Ledger.ts"
import { agentGateway } from "../../fixtures/mcp/AgentGateway.ts"
import { callOf, headersOf, legacy, type Message, modern, post, requestOf } from "../../fixtures/mcp/HttpMcp.ts"

/** A token of an authorization server, which the gateway does not accept. */
const foreignToken =
  [{ alg: "ES256", typ: "at+jwt" }, { sub: "alice", iss: "https://as.test" }].map((part) =>
    Buffer.from(JSON.stringify(part)).toString("base64url")
  ).join(".") + ".c2lnbmF0dXJlLW9mLWEtdG9rZW4tdGhhdC1ub2JvZHktYWNjZXB0cw"

const versions = [modern, legacy]

const tool = (version: string, name: string, args: unknown) => callOf(version, 1, name, args as Message)

const plain = (version: string) => (method: string, params: Message) => requestOf(version, 1, method, params)

/** Calls with a secret as a name that the gateway does not know. The errors repeat unknown names, but mask tokens. */
const unknownNames = (version: string, secret: string): ReadonlyArray<Message> => {
  const call = plain(version)
  return [
    tool(version, secret, {}),
    tool(version, "list_operations", { [secret]: secret }),
    call(secret, {}),
    call("prompts/get", { name: secret }),
    call("resources/read", { uri: secret }),
    call("resources/read", { uri: `operation://${secret}` }),
    call("resources/read", { uri: `https://host.test/?access_token=${secret}` }),
    call("tools/list", { _meta: { "io.modelcontextprotocol/protocolVersion": secret } })
  ]
}

/** Calls with a secret as an argument, or in metadata. */
const misplaced = (version: string, secret: string): ReadonlyArray<Message> => {
  const call = plain(version)
  return [
    ...["get_operation", "wait_for_operation"].map((name) => tool(version, name, { id: secret })),
    tool(version, "find_operation_by_key", { idempotency_key: secret }),
    ...["page_token", "type", "created_after", "idempotency_key"].map((name) =>
      tool(version, "list_operations", { [name]: secret })
    ),
    tool(version, "list_operations", { state: [secret] }),
    ...["after", "type"].map((name) => tool(version, "changes_since", { [name]: secret })),
    tool(version, "list_operations", secret),
    call("tools/list", { cursor: secret }),
    call("logging/setLevel", { level: secret }),
    ...["tasks/get", "tasks/update", "tasks/cancel"].map((method) => call(method, { taskId: secret })),
    call("notifications/cancelled", { requestId: 1, reason: secret }),
    call("tools/list", { _meta: { [secret]: secret } }),
    call("tools/list", { _meta: { "io.modelcontextprotocol/clientInfo": { name: secret, version: secret } } }),
    call("initialize", { protocolVersion: secret, capabilities: {}, clientInfo: { name: secret, version: "1" } })
  ]
}

/** Requests with a secret outside of a message. */
const outside = (url: URL, token: string, secret: string): ReadonlyArray<readonly [URL, RequestInit]> => {
  const message = requestOf(modern, 1, "tools/list")
  const body = JSON.stringify(message)
  const ok = { ...headersOf(message), authorization: `Bearer ${token}` }
  const send = (extra: Readonly<Record<string, string>>, target = "", content = body) =>
    [new URL(url.href + target), { method: "POST", headers: { ...ok, ...extra }, body: content }] as const
  return [
    send({}, `?access_token=${secret}`),
    send({ authorization: "" }, `?access_token=${secret}`),
    send({}, `?token=${encodeURIComponent(encodeURIComponent(secret))}`),
    send({ authorization: `Bearer ${secret}x` }),
    send({ authorization: secret }),
    send({ authorization: `Basic ${Buffer.from(`agent:${secret}`).toString("base64")}` }),
    send({ authorization: `DPoP ${secret}`, dpop: secret }),
    ...[
      "origin",
      "cookie",
      "mcp-session-id",
      "mcp-method",
      "mcp-name",
      "mcp-protocol-version",
      "accept",
      "content-type"
    ]
      .map((name) => send({ [name]: secret })),
    send({}, "", secret),
    send({}, "", `{"jsonrpc":"2.0","id":1,"method":"${secret}`),
    send({}, "", JSON.stringify([secret])),
    send({}, "", JSON.stringify({ jsonrpc: secret, id: 1, method: "tools/list" })),
    [url, { method: "DELETE", headers: { ...ok, "mcp-session-id": secret } }],
    [url, { method: "GET", headers: { ...ok, "last-event-id": secret } }]
  ]
}

const sendAny = async ([url, init]: readonly [URL, RequestInit]) => {
  const response = await fetch(url, init)
  return { status: response.status, headers: [...response.headers], text: await response.text() }
}

/** Parts of a secret that would reveal it: a masked one shows at most how it begins. */
const partsOf = (secret: string) => {
  const middle = Math.floor(secret.length / 2)
  return [secret.slice(8, 24), secret.slice(middle, middle + 16), secret.slice(-16)]
}

describe("An access token", () => {
  it.live("is in no log line, wherever an agent puts it, and in no answer to a message", () =>
    Effect.gen(function*() {
      const { services, start, url } = yield* agentGateway
      const { output, stop } = yield* start({ LOG_LEVEL: "All" })
      const { access_token, identity } = yield* Effect.provide(issue(), services)
      const { operation: { id } } = yield* Effect.provide(accept(identity), services)
      const token = Redacted.value(access_token)
      const secrets = [token, foreignToken]

      const responses = yield* Effect.promise(async () => {
        const ask = (message: Message) => post(Number(url.port), token, message)
        const right = versions.flatMap((version) => [
          tool(version, "list_operations", {}),
          tool(version, "wait_for_operation", { id, seconds: 1 }),
          requestOf(version, 1, "tools/list")
        ])
        // As clients do: on a busy machine the first reads may miss their deadline.
        const served = async (message: Message): ReturnType<typeof ask> => {
          const response = await ask(message)
          return response.status === 503 ? served(message) : response
        }
        const answered = await Promise.all(right.map(served))
        assert.deepStrictEqual(answered.map(({ status }) => status), right.map(() => 200))
        const wrong = await Promise.all(secrets.flatMap((secret) => {
          const placeOf = (request: unknown) => JSON.stringify(request).replaceAll(secret, "SECRET")
          return [
            ...versions.flatMap((version) => [...misplaced(version, secret), ...unknownNames(version, secret)])
              .map(async (message) => ({ place: placeOf(message), response: await ask(message) })),
            ...outside(url, token, secret)
              .map(async (request) => ({ place: placeOf(request), response: await sendAny(request) }))
          ]
        }))
        // A problem names the path of its request (RFC 9457 §3.1.5).
        const authorization = `Bearer ${token}`
        for (const secret of secrets) await sendAny([new URL(`${url.href}/${secret}`), { headers: { authorization } }])
        return [...answered.map((response) => ({ place: "where it belongs", response })), ...wrong]
      })
      yield* stop("SIGTERM")
      const log = output.stderr + output.stdout
      assert.include(log, "Request refused", "the log has the requests")
      const leaks: Array<string> = []
      for (const part of secrets.flatMap(partsOf)) {
        for (const line of log.split("\n")) if (line.includes(part)) leaks.push(`log: ${line}`)
        for (const { place, response } of responses) {
          if (JSON.stringify(response).includes(part)) leaks.push(`${place}: ${JSON.stringify(response)}`)
        }
      }
      assert.deepStrictEqual(leaks, [])
    }).pipe(Effect.scoped))
})
