/**
 * Defects and unavailable services become complete, safe problems in time. The tests replace the store and the
 * verifier.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { AuthorizationUnavailable, type Credential } from "../../../../src/domain/Credential.ts"
import { type ClientId, GrantUnknown } from "../../../../src/domain/Grant.ts"
import { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { heldStore, makeHeld } from "../../../fixtures/http/HeldRequests.ts"
import {
  fixedId,
  fixedIdentity,
  fixedToken as token,
  operationWith,
  type Services,
  withServices
} from "../../../fixtures/http/HttpFixed.ts"
import type { Gateway } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, type Code } from "../../../fixtures/http/HttpProblem.ts"

const get = `/v1/operations/${fixedId}`
const list = "/v1/operations"
const both = [get, list]

const internals = "postgres://gateway:hunter2@10.0.0.7/ledger relation \"operations\" does not exist"
const dies = () => Effect.die(new Error(internals))
const throws = () => {
  throw new TypeError(internals)
}
const away = () => Effect.fail(new StoreUnavailable({ cause: new Error(internals) }))

describe("A defect", () => {
  const defects: Readonly<Record<string, Services>> = {
    "a store that dies": { find: dies, list: dies },
    "a store that throws": { find: throws, list: throws },
    "a verifier that dies": { verify: dies },
    "a verifier that throws": { verify: throws }
  }
  it.live.each(Object.keys(defects))(
    "is 500 internal_error without internal details, and is logged: %s",
    (name) =>
      withServices(defects[name]!, ({ send }, { causesOf }) =>
        Effect.gen(function*() {
          for (const [index, target] of both.entries()) {
            const id = `defect-request-${index}`
            const answer = yield* send(target, { token, headers: { "x-request-id": id } })
            const problem = assertProblemOf(answer, "internal_error")
            assert.strictEqual(problem.detail, "The gateway failed in a way that it did not foresee.")
            for (const word of ["hunter2", "10.0.0.7", "relation", "operations\\", "Error", "    at "]) {
              assert.notInclude(answer.text, word)
            }
            const lines = causesOf(id)
            assert.deepStrictEqual(lines.map(({ level }) => level), ["ERROR"])
            assert.include(lines[0]!.text, "hunter2")
            assert.strictEqual(lines[0]!.text.includes("GrantVerifier.verify"), "verify" in defects[name]!)
          }
        }))
  )

  it.live("in the readiness check is 500, and never ready", () =>
    withServices({ check: dies() }, ({ send }) =>
      Effect.gen(function*() {
        assertProblemOf(yield* send("/readyz"), "internal_error")
        assert.strictEqual((yield* send("/healthz")).status, 200)
      })))

  it.live("ends neither the connection nor the service", () => {
    let broken = true
    const find = () => broken ? dies() : Effect.succeed(operationWith())
    return withServices({ find }, ({ check, wire }) =>
      Effect.gen(function*() {
        const connection = yield* wire
        const ask = Effect.promise(async () => {
          connection.send(`GET ${get} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`)
          const answer = await connection.next()
          check({ method: "GET", target: get }, answer!)
          return answer!
        })
        assertProblemOf(yield* ask, "internal_error")
        broken = false
        assert.strictEqual((yield* ask).status, 200)
      }))
  })
})

describe("A service that is unavailable", () => {
  const noKeys = () => Effect.fail(new AuthorizationUnavailable({ cause: new Error(internals) }))

  it.live.each<readonly [what: string, services: Services, code: Code, retryAfter: string, cause: string]>([
    ["the store for reads", { find: away, list: away }, "service_unavailable", "1", internals],
    ["the store for the verifier", { verify: away }, "service_unavailable", "1", internals],
    // A token that cannot be checked is not a bad token.
    [
      "the authorization server",
      { verify: noKeys },
      "authorization_unavailable",
      "5",
      `the credential could not be verified: ${internals}`
    ]
  ])(
    "is 503 with Retry-After, never 401, and is logged: %s",
    ([, services, code, retryAfter, cause]) =>
      withServices(services, ({ send }, { linesOf }) =>
        Effect.gen(function*() {
          for (const [index, target] of both.entries()) {
            const id = `unavailable-${index}`
            const answer = yield* send(target, { token, headers: { "x-request-id": id } })
            assertProblemOf(answer, code)
            assert.strictEqual(answer.headers["retry-after"], retryAfter)
            assert.notInclude(answer.text, "hunter2")
            assert.deepStrictEqual(linesOf(id).map(({ annotations }) => annotations["cause"]), [cause])
          }
          // A missing credential is 401 without any service.
          assertProblemOf(yield* send(list), "missing_credentials")
        }))
  )

  // `HeldRequests` has the deadline of the store, on every way.
  it.live("is 503 once the deadline has passed, also if the verifier hangs", () =>
    withServices(
      { verify: () => Effect.never },
      ({ send }, { lines }) =>
        Effect.map(send(list, { token }), (answer) => {
          assertProblemOf(answer, "service_unavailable")
          assert.deepStrictEqual(lines.map(({ annotations }) => annotations["cause"]), [
            "the deadline passed before the database, or the verifier, answered"
          ])
        }),
      { lifecycle: { deadline: 20 } }
    ))

  it.effect("has a deadline of 1.8 seconds, which leaves time to answer within two", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Lifecycle).options.deadline, 1800)
    }).pipe(Effect.provide(Lifecycle.layer())))
})

describe("A grant that the verifier knows and the store does not", () => {
  const unknown = () => Effect.fail(new GrantUnknown())

  it.live("is 401 invalid_token, because a token of a missing grant is invalid", () =>
    withServices({ find: unknown, list: unknown }, ({ send }) =>
      Effect.gen(function*() {
        for (const target of both) assertProblemOf(yield* send(target, { token }), "invalid_token")
      })))
})

describe("Saturation", () => {
  const askAll = (send: Gateway["Service"]["send"], count: number) =>
    Effect.forEach(Array.from({ length: count }), () => send(get, { token }), { concurrency: "unbounded" })

  it.live("answers requests for operations with 503 at once until there is room, and affects no other request", () => {
    const held = makeHeld()
    const { find } = heldStore(held)
    return withServices({ find }, ({ send }) =>
      Effect.gen(function*() {
        const crowded = yield* Effect.forkChild(askAll(send, 3))
        yield* held.entered(3)
        for (const target of both) {
          const answer = yield* send(target, { token })
          assertProblemOf(answer, "service_unavailable")
          assert.strictEqual(answer.headers["retry-after"], "1")
          // The gateway does not verify a request that it cannot serve.
          assertProblemOf(yield* send(target), "service_unavailable")
        }
        assert.strictEqual((yield* send("/healthz")).status, 200)
        assert.strictEqual((yield* send("/readyz")).status, 200)
        assert.strictEqual((yield* send("/problems")).status, 200)
        held.release()
        for (const answer of yield* Fiber.join(crowded)) assert.strictEqual(answer.status, 200)
        assert.strictEqual((yield* send(get, { token })).status, 200)
      }), { lifecycle: { maxInFlight: 3 } })
  })

  it.live("of one client's share refuses only that client", () => {
    const held = makeHeld()
    const { find } = heldStore(held)
    const verify = ({ token }: Credential) =>
      Effect.succeed({ ...fixedIdentity, client_id: Redacted.value(token) as ClientId })
    const list = () => Effect.succeed({ operations: [], next: null })
    return withServices({ find, list, verify }, ({ send }) =>
      Effect.gen(function*() {
        const crowded = yield* Effect.forkChild(askAll(send, 2))
        yield* held.entered(2)
        for (const target of both) {
          const answer = yield* send(target, { token })
          assert.include(assertProblemOf(answer, "service_unavailable").detail, "client")
        }
        assert.strictEqual((yield* send("/v1/operations", { token: "another-client" })).status, 200)
        held.release()
        for (const answer of yield* Fiber.join(crowded)) assert.strictEqual(answer.status, 200)
        for (let n = 0; n < 5; n++) assert.strictEqual((yield* send(get, { token })).status, 200)
      }), { lifecycle: { maxInFlightPerClient: 2 } })
  })
})
