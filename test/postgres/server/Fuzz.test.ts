/**
 * Every request gets an answer that fits the contract, and never a 5xx. The tests send thousands of random requests
 * over sockets to a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { rounds } from "../../fixtures/Effort.ts"
import { type FuzzRequest, fuzzRequests, toBytes } from "../../fixtures/http/HttpFuzz.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { acceptMany, issue } from "../../fixtures/http/HttpScene.ts"
import { type Answer, openWire, type Wire } from "../../fixtures/http/HttpWire.ts"

/** The seed of the random requests: a failure repeats with the same seed. */
const seed = Number(process.env["FUZZ_SEED"] ?? 20261121)
const requests = Number(process.env["FUZZ_REQUESTS"] ?? rounds(300, 10_000))
const connections = 16

/** Milliseconds after which a request counts as hanging. */
const patience = 150_000

/** The number of requests for each path. The documentation page is large and the same for every client. */
const paths: ReadonlyArray<readonly [template: string, requests: number]> = [
  ["/healthz", requests],
  ["/readyz", requests],
  ["/v1/operations", requests],
  ["/v1/operations/{id}", requests],
  ["/problems", requests],
  ["/problems/not_ready", requests],
  ["/", requests / 10],
  ["/openapi.json", requests / 10],
  ["/docs", requests / 100]
]

const requestIdOf = ({ headers }: FuzzRequest): string | undefined => {
  const [first, ...more] = headers.filter(([name]) => name === "X-Request-Id")
  return more.length === 0 ? first?.[1].replaceAll(/^[ \t]+|[ \t]+$/g, "") : undefined
}

/**
 * What the listener read of a request, if it could not read the request itself: perhaps its path, perhaps its id. Null for other
 * answers.
 */
const unreadOf = (request: { readonly target: string; readonly requestId: string | undefined }, answer: Answer) => {
  const { headers, status, text } = answer
  const isUnread = (status === 400 || status === 414 || status === 431) && headers["connection"] === "close"
  const hasPath = text !== "" && !text.includes("\"instance\":\"/\",")
  const requestId = headers["x-request-id"] === request.requestId ? request.requestId : undefined
  return isUnread ? { target: hasPath ? request.target : "/", requestId } : null
}

const verify = ({ check }: Gateway["Service"], request: FuzzRequest, answer: Answer | null): Answer => {
  const { method, target } = request
  assert(answer !== null, "the connection was closed without an answer")
  assert.isBelow(answer.status, 500)
  const sent = { target, requestId: requestIdOf(request) }
  check({ method, ...unreadOf(sent, answer) ?? sent }, answer)
  return answer
}

const ask = async (wire: Wire, request: FuzzRequest): Promise<Answer | null> => {
  const hanging = Promise.withResolvers<never>()
  const timer = setTimeout(() => hanging.reject(new Error("no answer")), patience)
  wire.send(toBytes(request))
  return Promise.race([wire.next({ bodiless: request.method === "HEAD" }), hanging.promise]).finally(() =>
    clearTimeout(timer)
  )
}

/** Sends requests one by one, on one connection while it stays open, and counts the answers. */
const run = async (
  gateway: Gateway["Service"],
  queue: Iterator<FuzzRequest>,
  statuses: Map<number, number>
): Promise<void> => {
  let wire: Wire | undefined
  let before: FuzzRequest | undefined
  for (let next = queue.next(); !next.done; next = queue.next()) {
    const request = next.value
    if (wire?.isOpen() !== true) {
      before = undefined
      wire = await openWire(gateway.port)
    }
    let answer: Answer | null = null
    try {
      answer = await ask(wire, request)
      const { headers, status } = verify(gateway, request, answer)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (request.lies || headers["connection"] === "close") wire.destroy()
      before = request
    } catch (cause) {
      const seen = { request: toBytes(request), before: before && toBytes(before), answer }
      throw new Error(JSON.stringify(seen, null, 2).replaceAll(/a{99,}/g, "a…a"), { cause })
    }
  }
  wire?.destroy()
}

layer(postgresGateway({ quiet: true }), { excludeTestServices: true })("Every request", (it) => {
  it.effect.each(paths)(
    "gets an answer that fits the contract, and never a 5xx: %s",
    ([template, numRuns]) =>
      Effect.gen(function*() {
        const gateway = yield* Gateway
        const holder = yield* issue()
        const [operation] = yield* acceptMany(holder, 5)
        const path = template.replace("{id}", operation!.id)
        const queue = fc.sample(fuzzRequests(path, holder.token), { seed, numRuns })[Symbol.iterator]()
        const statuses = new Map<number, number>()
        yield* Effect.promise(() =>
          Promise.all(Array.from({ length: connections }, () => run(gateway, queue, statuses)))
        )
        assert.strictEqual([...statuses.values()].reduce((sum, count) => sum + count), numRuns)
        if (numRuns < 1000) return
        // The requests were of several kinds.
        const expected = template.startsWith("/v1") ? [200, 400, 401, 404, 405, 422] : [200, 400, 404, 405]
        assert.includeMembers([...statuses.keys()], expected)
      })
  )
})
