/**
 * No client, and no address that sends refused credentials, gets more than its quota or uses the quota of others. The
 * tests send requests over sockets while the test clock stands still.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { InvalidCredential, NonceRequired } from "../../../../src/domain/Credential.ts"
import { type ClientId, type GrantIdentity, PairwiseSubject } from "../../../../src/domain/Grant.ts"
import { RateLimit } from "../../../../src/node/http/HttpSettings.ts"
import type { Quota } from "../../../../src/server/gate/RateLimits.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { fixedToken, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, memoryGateway, type Request } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { accept, issue, issueAgain } from "../../../fixtures/http/HttpScene.ts"

/** Four requests a minute, and a burst of three. */
const quota: Quota = { requests: 4, window: 60, burst: 3 }

const policy = (name: string) => `"${name}";q=4;w=60;fingw-burst=3`

const list = "/v1/operations"

const statuses = (target: string, count: number, request: Request) =>
  Effect.gen(function*() {
    const { send } = yield* Gateway
    const found: Array<number> = []
    for (let n = 0; n < count; n++) found.push((yield* send(target, request)).status)
    return found
  })

layer(memoryGateway({ rateLimits: { quota } }))("A client and subject", (it) => {
  it.effect("get a burst, then the refill of the quota, and a 429 with the time to wait", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      assert.deepStrictEqual(yield* statuses(list, 3, { token }), [200, 200, 200])
      for (let n = 0; n < 10; n++) {
        const refused = yield* send(list, { token })
        assert.isTrue(assertProblemOf(refused, "rate_limited").retryable)
        assert.strictEqual(refused.headers["retry-after"], "15")
        assert.strictEqual(refused.headers["ratelimit"], "\"requests\";r=0;t=15")
        assert.strictEqual(refused.headers["ratelimit-policy"], policy("requests"))
      }
      yield* TestClock.adjust("14999 millis")
      assert.strictEqual((yield* send(list, { token })).headers["retry-after"], "1")
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* statuses(list, 2, { token }), [200, 429])
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(yield* statuses(list, 4, { token }), [200, 200, 200, 429])
    }))

  it.effect("share their quota among all of their grants, and with no other client and no other subject", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      assert.deepStrictEqual(yield* statuses(list, 4, { token: holder.token }), [200, 200, 200, 429])
      const again = yield* issueAgain(holder)
      assertProblemOf(yield* send(list, { token: again.token }), "rate_limited")
      const otherSubject = yield* issueAgain(holder, { subject: PairwiseSubject.make(`x${holder.grant.subject}`) })
      const otherClient = yield* issueAgain(holder, { client_id: `x${holder.grant.client_id}` as ClientId })
      for (const { token } of [otherSubject, otherClient]) {
        assert.deepStrictEqual(yield* statuses(list, 4, { token }), [200, 200, 200, 429])
      }
    }))

  it.effect("pay a tenth for a conditional read that ends in 304, and in full for one that does not", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { token } = holder
      const target = `${list}/${(yield* accept(holder)).id}`
      const { headers } = yield* send(target, { token })
      assert.strictEqual(headers["ratelimit"], "\"requests\";r=2;t=15")
      const known = { token, headers: { "if-none-match": headers["etag"]! } }
      assert.deepStrictEqual(yield* statuses(target, 10, known), Array.from({ length: 10 }, () => 304))
      const eleventh = yield* send(target, { token, headers: { "if-none-match": "\"other\"" } })
      assert.strictEqual(eleventh.status, 200)
      assert.strictEqual(eleventh.headers["ratelimit"], "\"requests\";r=0;t=45")
      assert.deepStrictEqual(yield* statuses(target, 1, known), [429])
    }))

  it.effect("get the remaining quota in every response: successes, problems, and those without a body", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const answers = [
        [200, list],
        [404, `${list}/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f`],
        [406, list, { accept: "text/html" }],
        [422, `${list}/x`],
        [422, `${list}?page_size=0`]
      ] as const
      for (const [status, target, headers = {}] of answers) {
        const { token } = yield* issue()
        const answer = yield* send(target, { token, headers })
        assert.strictEqual(answer.status, status)
        assert.strictEqual(answer.headers["ratelimit"], "\"requests\";r=2;t=15")
        assert.strictEqual(answer.headers["ratelimit-policy"], policy("requests"))
      }
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const known = yield* send(`${list}/${id}`, { token: holder.token, headers: { "if-none-match": "*" } })
      assert.strictEqual(known.status, 304)
      assert.strictEqual(known.headers["ratelimit"], "\"requests\";r=2;t=2")
    }))

  it.effect("do not pay for requests that need no credential", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const { token } = yield* issue()
      assert.deepStrictEqual(yield* statuses("/healthz", 10, { token }), Array.from({ length: 10 }, () => 200))
      const { headers } = yield* send("/healthz", { token })
      assert.notProperty(headers, "ratelimit")
      assert.strictEqual((yield* send(list, { token })).headers["ratelimit"], "\"requests\";r=2;t=15")
    }))
})

const forwarded = (addresses: string, token = "nonsense") => ({ token, headers: { "x-forwarded-for": addresses } })

layer(memoryGateway({ rateLimits: { quota, trustedProxies: ["127.0.0.1", "10.0.0.0/8"] } }))(
  "Refused credentials of an address",
  (it) => {
    it.effect("are limited, and get equal answers beyond the limit; valid credentials are never refused", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { token } = yield* issue()
        const from = "192.0.2.1"
        const first = yield* send(list, forwarded(from))
        assertProblemOf(first, "invalid_token")
        assert.notProperty(first.headers, "ratelimit", "others may share the address")
        const { headers, ...nonsense } = forwarded(from)
        const unmet = { ...nonsense, headers: { ...headers, accept: "text/html" } }
        assert.deepStrictEqual(yield* statuses(list, 2, unmet), [401, 401])
        for (const bad of ["nonsense", `${token}x`]) {
          const refused = yield* send(list, forwarded(from, bad))
          assertProblemOf(refused, "rate_limited")
          assert.strictEqual(refused.headers["retry-after"], "15")
          assert.strictEqual(refused.headers["ratelimit"], "\"refusals\";r=0;t=15")
          assert.strictEqual(refused.headers["ratelimit-policy"], policy("refusals"))
        }
        const missing = yield* send(list, { headers: { "x-forwarded-for": from } })
        assertProblemOf(missing, "rate_limited")
        const good = yield* send(list, forwarded(from, token))
        assert.strictEqual(good.status, 200)
        assert.strictEqual(good.headers["ratelimit"], "\"requests\";r=2;t=15")
        yield* TestClock.adjust("15 seconds")
        assert.deepStrictEqual(yield* statuses(list, 2, forwarded(from)), [401, 429])
      }))

    it.effect("are counted for the last address that is not a trusted proxy, with any addresses that the client puts before it", () =>
      Effect.gen(function*() {
        for (let n = 0; n < 3; n++) {
          assert.deepStrictEqual(yield* statuses(list, 1, forwarded(`198.51.100.${n}, 192.0.2.2, 10.0.0.7`)), [401])
        }
        assert.deepStrictEqual(yield* statuses(list, 1, forwarded("192.0.2.2")), [429])
        assert.deepStrictEqual(yield* statuses(list, 1, forwarded("192.0.2.3")), [401])
      }))

    it.effect("do not include credentials whose grant is refused: their client and subject pay for them", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { token } = yield* issue({ scopes: [] })
        assert.deepStrictEqual(yield* statuses(list, 4, forwarded("192.0.2.4", token)), [403, 403, 403, 429])
        assertProblemOf(yield* send(list, forwarded("192.0.2.4")), "invalid_token")
      }))
  }
)

describe("A credential", () => {
  const rateLimits = { quota }

  it.effect("that lacks a fresh nonce, or cannot be verified, is not refused", () =>
    Effect.gen(function*() {
      let failure: NonceRequired | StoreUnavailable | InvalidCredential = new NonceRequired({ nonce: "nonce" })
      const verify = () => Effect.fail(failure)
      yield* withServices({ verify }, ({ send }) =>
        Effect.gen(function*() {
          const many = Array.from({ length: 10 })
          for (const _ of many) assertProblemOf(yield* send(list, { token: fixedToken }), "use_dpop_nonce")
          failure = new StoreUnavailable({ cause: new Error("away") })
          for (const _ of many) assertProblemOf(yield* send(list, { token: fixedToken }), "service_unavailable")
          failure = new InvalidCredential()
          assert.deepStrictEqual(
            (yield* Effect.forEach(Array.from({ length: 4 }), () => send(list, { token: fixedToken }))).map((
              { status }
            ) => status),
            [401, 401, 401, 429]
          )
        }), { rateLimits })
    }))

  it.effect("is verified once, also if its client has no place or no quota left: a DPoP proof cannot be shown twice", () =>
    Effect.gen(function*() {
      let verified = 0
      const identity = { grant_id: "grant", client_id: "client", subject: "subject" } as GrantIdentity
      const verify = () => Effect.sync(() => (verified++, identity))
      yield* withServices(
        { verify },
        ({ send }) =>
          Effect.map(send(list, { token: fixedToken }), (answer) => assertProblemOf(answer, "service_unavailable")),
        { lifecycle: { maxInFlightPerClient: 0 } }
      )
      assert.strictEqual(verified, 1)
      yield* withServices({ verify }, ({ send }) =>
        Effect.gen(function*() {
          for (let n = 0; n < 3; n++) yield* send(list, { token: fixedToken })
          assertProblemOf(yield* send(list, { token: fixedToken }), "rate_limited")
        }), { rateLimits })
      assert.strictEqual(verified, 5)
    }))
})

describe("A quota in text", () => {
  it.each(["100", "0/s", "100/w", "1.5/s", "100/s;burst=0", "100/s; burst=2", "100/s;rate=1"])("is not %s", (text) => {
    assert.throws(() => Schema.decodeUnknownSync(RateLimit)(text), /a quota such as 100\/s/)
  })
})
