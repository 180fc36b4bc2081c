/**
 * A body that does not end holds no slot, on every way by which a body is read. The tests send unfinished requests over sockets, with
 * bounds small enough to reach.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema, Stream } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { Gate, OpenGate } from "../../../../src/api/Middleware.ts"
import { mutationEndpoint } from "../../../../src/api/MutationEndpoint.ts"
import type { ClientId, GrantIdentity } from "../../../../src/domain/Grant.ts"
import { McpRoutes } from "../../../../src/server/agents/McpRoutes.ts"
import type { Lifecycle, LifecycleOptions } from "../../../../src/server/gate/Lifecycle.ts"
import { layerRateLimits, layerServer } from "../../../../src/server/Gateway.ts"
import { assertFreeSlots } from "../../../fixtures/http/BothWays.ts"
import { type Held, heldStore, makeHeld, serveApplication } from "../../../fixtures/http/HeldRequests.ts"
import { applicationGate, fixedId, fixedIdentity, freshReads, operationWith } from "../../../fixtures/http/HttpFixed.ts"
import { acquireWire } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../../fixtures/http/HttpProblem.ts"
import type { Answer, Wire } from "../../../fixtures/http/HttpWire.ts"
import { requestOf } from "../../../fixtures/mcp/HttpMcp.ts"
import { until } from "../../../fixtures/until.ts"

const Payment = Schema.Struct({ amount: Schema.String })

const success = Schema.String
const form = Payment.pipe(HttpApiSchema.asFormUrlEncoded())
const stream = HttpApiSchema.StreamUint8Array()

class TeamApi extends HttpApi.make("team").add(
  HttpApiGroup.make("payments").add(
    mutationEndpoint("pay", "/v1/payments", { payload: Payment }),
    HttpApiEndpoint.post("own", "/v1/own", { payload: Payment, success }).middleware(Gate),
    HttpApiEndpoint.post("form", "/v1/form", { payload: form, success }).middleware(Gate),
    HttpApiEndpoint.post("upload", "/v1/upload", { payload: stream, success }).middleware(Gate),
    HttpApiEndpoint.post("open", "/v1/open", { payload: Payment, success }).middleware(OpenGate)
  )
) {}

const amountIn = ({ payload }: { readonly payload: typeof Payment.Type }) => Effect.succeed(payload.amount)

const Team = HttpApiBuilder.group(TeamApi, "payments", (handlers) =>
  handlers
    .handle("pay", () =>
      Effect.succeed(HttpApiSchema.withHeaders({ body: operationWith(), headers: { location: `${baseUrl}/paid` } })))
    .handle("own", amountIn)
    .handle("form", amountIn)
    .handle("upload", ({ payload }) =>
      Effect.map(Effect.orDie(Stream.mkString(Stream.decodeText(payload))), String))
    .handle("open", amountIn))

const identityOf = (client: string): GrantIdentity => ({ ...fixedIdentity, client_id: client as ClientId })

/** The access token of a client is its name. */
const clients = ["attacker", "other"]

const TeamRoutes = HttpApiBuilder.layer(TeamApi).pipe(Layer.provide(Team), Layer.provide(applicationGate))

const WholeServer = layerServer(TeamRoutes, [TeamApi], McpRoutes())

/** Opens a server of an application. Its reads are held, if there is something that holds them. */
const serve = (lifecycle: Partial<LifecycleOptions>, held: Held | null = null, Server = WholeServer) =>
  serveApplication(Server, {
    reads: held === null ? freshReads : heldStore(held),
    lifecycle: { deadline: 60_000, bodyTimeout: 60_000, ...lifecycle },
    tokens: new Map(clients.map((client) => [client, identityOf(client)]))
  })

interface Post {
  readonly path: string
  readonly body: string
  readonly type?: string
  /** The status of the answer to the whole request. */
  readonly status: number
}

const amount = JSON.stringify({ amount: "1.00" })

/** Every way by which a body is read. */
const posts: Readonly<Record<string, Post>> = {
  "the endpoint of agents": {
    path: "/mcp",
    body: JSON.stringify(requestOf("2025-11-25", 1, "tools/call", {
      name: "get_operation",
      arguments: { id: fixedId }
    })),
    status: 200
  },
  "a mutation endpoint": { path: "/v1/payments", body: amount, status: 202 },
  "an endpoint of the application": { path: "/v1/own", body: amount, status: 200 },
  "an endpoint with a form": {
    path: "/v1/form",
    body: "amount=1.00",
    type: "application/x-www-form-urlencoded",
    status: 200
  },
  "an endpoint with a stream": { path: "/v1/upload", body: amount, type: "application/octet-stream", status: 200 },
  "an endpoint without a grant": { path: "/v1/open", body: amount, status: 200 }
}

const names = Object.keys(posts)
const withGrant = names.filter((name) => name !== "an endpoint without a grant")

const headOf = ({ path, type = "application/json" }: Post, client: string, length: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client}\r\nIdempotency-Key: key-1\r\n`
  + `Accept: application/json, text/event-stream\r\nContent-Type: ${type}\r\n${length}\r\n\r\n`

const wholeOf = (post: Post, client = "attacker"): string =>
  headOf(post, client, `Content-Length: ${post.body.length}`) + post.body

const readOf = (client: string): string =>
  `GET /v1/operations/${fixedId} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${client}\r\n\r\n`

const send = Effect.fnUntraced(function*(port: number, bytes: string) {
  const wire = yield* acquireWire(port)
  wire.send(bytes)
  return wire
})

const refused = (answer: Answer, detail: string) =>
  assert.strictEqual(assertProblemOf(answer, "service_unavailable").detail, detail)

/** Whether this number of bodies of the client may arrive. Null: without a grant. */
const hasPlaces = (lifecycle: Lifecycle["Service"], client: string | null, count: number): boolean => {
  const bodies = Array.from({ length: count }, () => lifecycle.openBody(client, "127.0.0.1"))
  for (const body of bodies) body?.close()
  return bodies.every((body) => body !== null)
}

/** Sends reads of a client until one has a slot. */
const untilHeld = Effect.fnUntraced(function*(port: number, held: Held, client = "other") {
  while (true) {
    const wire = yield* send(port, readOf(client))
    const isHeld = yield* Effect.raceFirst(Effect.as(held.entered(1), true), Effect.as(next(wire), false))
    if (isHeld) return wire
  }
})

const next = (wire: Wire) => Effect.promise(async () => (await wire.next())!)

/** The first connection that is answered, and the answer. */
const firstOf = (wires: ReadonlyArray<Wire>) =>
  Effect.promise(() => Promise.race(wires.map(async (wire) => [wire, (await wire.next())!] as const)))

/** Sends requests without their last byte, one more than the bound, and returns those that were not refused. */
const fill = Effect.fnUntraced(function*(port: number, post: Post, bound: number) {
  const wires = yield* Effect.replicateEffect(send(port, wholeOf(post).slice(0, -1)), bound + 1)
  const [first, answer] = yield* firstOf(wires)
  refused(answer, "Too many bodies of the client are arriving.")
  assert.strictEqual(answer.headers["retry-after"], "1")
  return wires.filter((wire) => wire !== first)
})

describe("A body that has not arrived", () => {
  it.live.each(names)("holds no slot, and is read and answered once it ends: %s", (name) =>
    Effect.gen(function*() {
      const post = posts[name]!
      const bounds = { maxInFlight: 2, maxInFlightPerClient: 2, maxBodiesPerClient: 4 }
      const { lifecycle, port } = yield* serve(bounds)
      const unfinished = yield* fill(port, post, bounds.maxBodiesPerClient)
      assert.lengthOf(unfinished, 4)
      for (const client of clients) {
        assert.strictEqual((yield* next(yield* send(port, readOf(client)))).status, 200)
      }
      for (const wire of unfinished) {
        wire.send(post.body.at(-1)!)
        assert.strictEqual((yield* next(wire)).status, post.status)
      }
      yield* assertFreeSlots(lifecycle, "attacker", bounds.maxInFlight)
    }))

  it.live.each(names)(
    "is 408 request_timeout at the end of its time, and ends the connection: %s",
    (name) =>
      Effect.gen(function*() {
        const { lifecycle, port } = yield* serve({ maxInFlight: 2, maxBodiesPerClient: 1, bodyTimeout: 20 })
        // The place of a body is free again each time.
        for (let round = 0; round < 3; round++) {
          const wire = yield* send(port, wholeOf(posts[name]!).slice(0, -1))
          const answer = yield* next(wire)
          const { detail, retryable } = assertProblemOf(answer, "request_timeout")
          assert.deepStrictEqual([detail, retryable], ["The body did not arrive in full within 20 milliseconds.", true])
          assert.strictEqual(answer.headers["connection"], "close")
          assert.strictEqual(yield* Effect.promise(() => wire.closed), "")
        }
        yield* assertFreeSlots(lifecycle, "attacker", 2)
      })
  )

  it.live.each(withGrant)("is not waited for without a valid credential: %s", (name) =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodiesPerClient: 0 })
      const wire = yield* send(port, wholeOf(posts[name]!, "unknown").slice(0, -1))
      assertProblemOf(yield* next(wire), "invalid_token")
    }))

  it.live("is not waited for at an endpoint that takes none", () =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodiesPerClient: 0 })
      for (const target of ["/healthz", "/readyz", "/v1/operations", `/v1/operations/${fixedId}`]) {
        const bytes =
          `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer other\r\nContent-Length: 9\r\n\r\nunfinish`
        assertProblemOf(yield* next(yield* send(port, bytes)), "invalid_request")
      }
    }))

  it.live.each(names)("gives its place back when its client leaves: %s", (name) =>
    Effect.gen(function*() {
      const { lifecycle, port } = yield* serve({ maxInFlight: 2, maxBodiesPerClient: 2 })
      for (let round = 0; round < 3; round++) {
        for (const wire of yield* fill(port, posts[name]!, 2)) wire.destroy()
        yield* until(() => hasPlaces(lifecycle, name === "an endpoint without a grant" ? null : "attacker", 2))
      }
      yield* assertFreeSlots(lifecycle, "attacker", 2)
    }))

  it.live("takes no place of another client", () =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodiesPerClient: 2 })
      const post = posts["a mutation endpoint"]!
      yield* fill(port, post, 2)
      const other = yield* send(port, wholeOf(post, "other").slice(0, -1))
      other.send(post.body.at(-1)!)
      assert.strictEqual((yield* next(other)).status, 202)
    }))

  it.live("counts with all bytes that arrived of the bodies of all clients", () =>
    Effect.gen(function*() {
      const { lifecycle, port } = yield* serve({ maxBodyBytes: 1000 })
      const post = { ...posts["an endpoint of the application"]!, body: JSON.stringify({ amount: "1".repeat(600) }) }
      const chunked = (client: string) =>
        headOf(post, client, "Transfer-Encoding: chunked") + `${post.body.length.toString(16)}\r\n${post.body}\r\n`
      const wires = yield* Effect.forEach(clients, (client) => send(port, chunked(client)))
      const [first, answer] = yield* firstOf(wires)
      refused(answer, "The arriving bodies have too many bytes in all.")
      const kept = wires.find((wire) => wire !== first)!
      kept.send("0\r\n\r\n")
      assert.strictEqual((yield* next(kept)).status, 200)
      const body = lifecycle.openBody("other", "127.0.0.1")!
      assert.isTrue(body.add(1000), "all bytes were given back")
      body.close()
    }))

  it.live("leaves half of the bytes to clients if it comes without a grant", () =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodyBytes: 2000 })
      const body = JSON.stringify({ amount: "1".repeat(900) })
      const chunked = (post: Post, end: string) =>
        `${headOf(post, "other", "Transfer-Encoding: chunked")}${body.length.toString(16)}\r\n${body}\r\n${end}`
      const open = yield* send(port, chunked(posts["an endpoint without a grant"]!, ""))
      refused(yield* next(open), "The arriving bodies have too many bytes in all.")
      const own = yield* send(port, chunked(posts["an endpoint of the application"]!, ""))
      own.send("0\r\n\r\n")
      assert.strictEqual((yield* next(own)).status, 200)
    }))

  it.live("counts by the address of its client behind a trusted proxy, an IPv6 address by its /64", () =>
    Effect.gen(function*() {
      const quota = { requests: 1000, window: 1, burst: 1000 }
      const Server = Layer.provide(WholeServer, layerRateLimits({ quota, trustedProxies: ["127.0.0.1"] }))
      const { port } = yield* serve({ maxBodiesPerClient: 1 }, null, Server)
      const post = posts["an endpoint without a grant"]!
      const from = (address: string) =>
        send(port, wholeOf(post).replace("\r\n", `\r\nX-Forwarded-For: ${address}\r\n`).slice(0, -1))
      const kept: Array<Wire> = []
      const pairs = [["192.0.2.1", "192.0.2.1"], ["192.0.2.2", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]]
      for (const pair of pairs) {
        const wires = yield* Effect.forEach(pair, from)
        const [first, answer] = yield* firstOf(wires)
        refused(answer, "Too many bodies of the client are arriving.")
        kept.push(wires.find((wire) => wire !== first)!)
      }
      for (const wire of kept) {
        wire.send(post.body.at(-1)!)
        assert.strictEqual((yield* next(wire)).status, 200)
      }
    }))

  it.live("counts with what its chunks take: one byte each is far more than its length", () =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodyBytes: 65_536 })
      const post = posts["an endpoint of the application"]!
      const wire = yield* send(port, headOf(post, "attacker", "Transfer-Encoding: chunked"))
      const fiber = yield* Effect.forkChild(next(wire), { startImmediately: true })
      for (let n = 0; n < 2000 && fiber.pollUnsafe() === undefined; n++) {
        wire.send("1\r\na\r\n")
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      refused(yield* Fiber.join(fiber), "The arriving bodies have too many bytes in all.")
    }))

  it.live("is refused by its announced length before it takes a place", () =>
    Effect.gen(function*() {
      // Without the edge, which looks at the length first.
      const { port } = yield* serve({ maxBodiesPerClient: 0 }, null, HttpRouter.serve(TeamRoutes))
      for (const name of names.filter((name) => posts[name]!.path !== "/mcp")) {
        const head = headOf(posts[name]!, "attacker", "Content-Length: 65537")
        assertProblemOf(yield* next(yield* send(port, head)), "payload_too_large")
      }
    }))

  it.live("is 413 once it is longer than 64 KiB, announced or not", () =>
    Effect.gen(function*() {
      const { port } = yield* serve({})
      for (const name of names) {
        const post = { ...posts[name]!, body: "1".repeat(65_537) }
        const chunk = `Transfer-Encoding: chunked`
        assertProblemOf(yield* next(yield* send(port, wholeOf(post))), "payload_too_large")
        const wire = yield* send(port, `${headOf(post, "attacker", chunk)}10001\r\n${post.body}\r\n`)
        assertProblemOf(yield* next(wire), "payload_too_large")
      }
    }))
})

describe("A body that arrived", () => {
  it.live.each(names)("with its headers takes no place among the others: %s", (name) =>
    Effect.gen(function*() {
      const { port } = yield* serve({ maxBodiesPerClient: 0 })
      assert.strictEqual((yield* next(yield* send(port, wholeOf(posts[name]!)))).status, posts[name]!.status)
    }))

  it.live.each(withGrant)(
    "is refused if no slot is free then, and gets one later: %s",
    (name) =>
      Effect.gen(function*() {
        const held = makeHeld()
        const post = name === "the endpoint of agents"
          ? { ...posts[name]!, body: JSON.stringify(requestOf("2025-11-25", 1, "ping")) }
          : posts[name]!
        const { port } = yield* serve({ maxInFlight: 1 }, held)
        const wire = yield* send(port, wholeOf(post).slice(0, -1))
        // The read gets the only slot as soon as the body has freed it.
        const read = yield* untilHeld(port, held)
        wire.send(post.body.at(-1)!)
        const answer = yield* next(wire)
        refused(answer, "Too many requests are running.")
        held.release()
        assert.strictEqual((yield* next(read)).status, 200)
        wire.send(wholeOf(post))
        assert.strictEqual((yield* next(wire)).status, post.status)
      })
  )

  it.live("is refused if its client has no slot left then", () =>
    Effect.gen(function*() {
      const held = makeHeld()
      const post = posts["a mutation endpoint"]!
      const { port } = yield* serve({ maxInFlightPerClient: 1 }, held)
      const wire = yield* send(port, wholeOf(post).slice(0, -1))
      const read = yield* untilHeld(port, held, "attacker")
      wire.send(post.body.at(-1)!)
      refused(yield* next(wire), "The client has too many running requests.")
      held.release()
      assert.strictEqual((yield* next(read)).status, 200)
    }))

  it.live.each(withGrant)("during the shutdown is still read and answered: %s", (name) =>
    Effect.gen(function*() {
      const post = posts[name]!
      const { lifecycle, port } = yield* serve({ maxBodiesPerClient: 1 })
      const [wire] = yield* fill(port, post, 1)
      const draining = yield* Effect.forkChild(lifecycle.drain, { startImmediately: true })
      assertProblemOf(yield* next(yield* send(port, readOf("other"))), "service_unavailable")
      assert.isUndefined(draining.pollUnsafe(), "the shutdown waits for the body")
      wire!.send(post.body.at(-1)!)
      assert.strictEqual((yield* next(wire!)).status, post.status)
      yield* Fiber.join(draining)
    }))
})
