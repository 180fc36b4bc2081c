/**
 * A resource owner decides at the OpenID provider, by CIBA: only a verified answer of this owner to this question is a decision.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Option } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as SqlClient from "effect/sql/SqlClient"
import { bindingMessageOf, CibaApprovals, type CibaOptions } from "../../../src/ciba/CibaApprovals.ts"
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import type { ResourceOwner } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import {
  type CibaProvider,
  makeCibaProvider,
  notificationUrl,
  settingsFor
} from "../../fixtures/authorization/CibaProvider.ts"
import { accept, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"

const details: AuthorizationDetails = [{
  type: "financial_operations",
  approval: { above: [{ currency: "EUR", amount: "0" }] }
}]

/** The order of P-256. With `n - s` in the place of `s`, a signature of ES256 is still valid. */
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/** The JWT with another valid signature. */
const otherSignature = (jwt: string): string => {
  const end = jwt.lastIndexOf(".") + 1
  const signature = Buffer.from(jwt.slice(end), "base64url").toString("hex")
  const s = (order - BigInt(`0x${signature.slice(64)}`)).toString(16).padStart(64, "0")
  return jwt.slice(0, end) + Buffer.from(signature.slice(0, 64) + s, "hex").toString("base64url")
}

const terms = { amount: "70.00", currency: "EUR", payee: "DE02120300000000202051" }

/** An operation that waits for its owner. */
const waiting = Effect.gen(function*() {
  const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
  const { operation } = yield* accept(identity, { terms })
  return { id: operation.id, owner: grant.resource_owner }
})

/** Runs with a provider of its own, and the service of this gateway. */
const withProvider = <A, E, R>(
  use: (provider: CibaProvider, ciba: CibaApprovals["Service"]) => Effect.Effect<A, E, R>,
  options: Partial<CibaOptions> = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const provider = yield* makeCibaProvider
    return yield* Effect.provide(
      CibaApprovals.use((ciba) => use(provider, ciba)),
      CibaApprovals.layer(settingsFor(provider, options))
    )
  }))

const stateOf = (id: OperationId) => Approvals.use(({ find }) => Effect.map(find(id), (approval) => approval!.state))

/** Decisions in the record of actions. */
const recordOf = (id: OperationId) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql<{ operator: string; action: string; reason: string; result: string }>`
        SELECT operator, action, reason, result FROM operator_actions WHERE operation_id = ${id} ORDER BY at`
  )

const failureOf = <A, E>(exit: Exit.Exit<A, E>) => {
  if (Exit.isSuccess(exit)) return "decided"
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error as { _tag?: string; reason?: string } | undefined
  return error === undefined ? Cause.pretty(exit.cause) : `${error._tag} ${error.reason}`
}

const pending = { status: 400, body: { error: "authorization_pending" } }

layer(PostgresLedger, { excludeTestServices: true })("CIBA", (it) => {
  it.effect("approves as the owner, whom the provider asked with the terms and no longer than the approval waits", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { id, owner } = yield* waiting
        provider.behaviour.polls = [pending, { status: 503, body: {} }, pending]
        const approval = yield* ciba.ask(id)
        assert.deepInclude(approval, { state: "approved", decided_as: "owner", decider: owner })
        assert.match(approval.reason!, /^CIBA at http:\/\/127\.0\.0\.1:\d+, SHA-256 of auth_req_id [0-9a-f]{64}$/)
        assert.lengthOf(provider.questions, 1)
        const { acr_values, binding_message, login_hint, requested_expiry, scope } = provider.questions[0]!
        assert.deepInclude({ acr_values, binding_message, login_hint, scope }, {
          acr_values: "urn:test:strong urn:test:stronger",
          binding_message: "70.00EUR/..000202051",
          login_hint: `account of ${owner}`,
          scope: "openid"
        })
        assert.isAtMost(Number(requested_expiry), 86_400)
        assert.isAbove(Number(requested_expiry), 86_000)
        assert.deepStrictEqual((yield* recordOf(id)).map(({ operator, result }) => [operator, result]), [[
          owner,
          "done"
        ]])
        assert.strictEqual((yield* OperationLedger.use((ledger) => ledger.show(id))).under_review, false)
      }), { acrValues: ["urn:test:strong", "urn:test:stronger"] }))

  it.effect("denies as the owner", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { id, owner } = yield* waiting
        provider.behaviour.answer = "deny"
        assert.deepInclude(yield* ciba.ask(id), { state: "denied", decided_as: "owner", decider: owner })
        assert.strictEqual((yield* OperationLedger.use((ledger) => ledger.show(id))).state, "cancelled")
      })
    ))

  it.effect("is no decision without an answer in time, or without a known one", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { id } = yield* waiting
        const { behaviour } = provider
        const asked = Effect.map(Effect.exit(ciba.ask(id)), failureOf)
        behaviour.answer = "nothing"
        behaviour.expiry = 1
        assert.strictEqual(yield* asked, "CibaUndecided expired")
        // The provider says so before the gateway.
        behaviour.response = { expires_in: 60 }
        assert.strictEqual(yield* asked, "CibaUndecided expired")
        behaviour.polls = [{ status: 400, body: { error: "invalid_grant" } }]
        assert.strictEqual(yield* asked, "CibaUndecided refused")
        assert.strictEqual(yield* stateOf(id), "pending")
        assert.isEmpty(yield* recordOf(id))
        behaviour.answer = "approve"
        behaviour.expiry = 60
        assert.strictEqual(yield* asked, "decided")
        assert.strictEqual(yield* asked, "CibaUndecided not_waiting")
        assert.lengthOf(provider.questions, 4)
      })
    ))

  it.effect("asks no one whom the provider does not know, or who could not read the amount", () =>
    Effect.gen(function*() {
      const { id } = yield* waiting
      for (
        const [options, reason] of [
          [{ hintOf: () => Effect.succeed(null) }, "no_hint"],
          [{ bindingMessage: bindingMessageOf(12) }, "too_long"]
        ] as const
      ) {
        yield* withProvider((provider, ciba) =>
          Effect.gen(function*() {
            assert.strictEqual(failureOf(yield* Effect.exit(ciba.ask(id))), `CibaUndecided ${reason}`)
            assert.isEmpty(provider.questions)
          }), options)
      }
      assert.strictEqual(yield* stateOf(id), "pending")
    }))

  it.effect("refuses forged answers, and records each with its reason", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { owner: stranger } = yield* waiting
        const { id: earlier } = yield* waiting
        const { behaviour } = provider
        const own = { ...behaviour }
        // Its end has passed, by less than clocks may differ: it is still accepted.
        behaviour.change = (claims) => ({ ...claims, exp: Math.floor(Date.now() / 1000) - 5 })
        yield* ciba.ask(earlier)
        const used = provider.idTokens[0]!
        const { id, owner } = yield* waiting
        const changed = (rest: object) => ({ change: (claims: object) => ({ ...claims, ...rest }) })
        const table: ReadonlyArray<readonly [Partial<CibaProvider["behaviour"]>, result: RegExp]> = [
          [{ replay: used }, /has answered another request/],
          [{ replay: otherSignature(used) }, /has answered another request/],
          [changed({ sub: `account of ${stranger}` }), /belongs to another resource owner/],
          [changed({ sub: "mallory" }), /no known resource owner/],
          [changed({ aud: "another client" }), /"aud"/],
          [changed({ iss: "https://other.test" }), /"iss"/],
          [changed({ exp: 1_000_000_000 }), /"exp"/],
          [changed({ iat: Math.floor(Date.now() / 1000) - 3600 }), /older than the request/],
          [changed({ acr: "urn:test:weak" }), /\(acr\)/],
          [changed({ "urn:openid:params:jwt:claim:auth_req_id": "another" }), /answers another request/],
          [{ isForged: true }, /signature/],
          [{ replay: `${Buffer.from("{\"alg\":\"none\"}").toString("base64url")}.${used.split(".")[1]}.` }, /"alg"|JWT/]
        ]
        for (const [change, expected] of table) {
          Object.assign(behaviour, own, change)
          const before = (yield* recordOf(id)).length
          assert.match(
            failureOf(yield* Effect.exit(ciba.ask(id))),
            /^(?:CibaUndecided refused|DecisionRefused other_owner)$/
          )
          const [record, ...more] = (yield* recordOf(id)).slice(before)
          assert.isEmpty(more)
          assert.deepInclude(record, { action: "approve" })
          assert.match(record!.result, expected)
          assert.match(record!.reason, /^CIBA at /)
          assert.notStrictEqual(record!.operator, owner)
        }
        assert.strictEqual(yield* stateOf(id), "pending")
        Object.assign(behaviour, own)
        assert.deepInclude(yield* ciba.ask(id), { state: "approved", decider: owner })
      }), { acrValues: ["urn:test:strong"] }))

  it.effect("polls no faster than the provider says", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { id } = yield* waiting
        provider.behaviour.response = { interval: 0.3 }
        provider.behaviour.polls = [pending, { status: 400, body: { error: "slow_down" } }]
        const asked = yield* Effect.forkChild(ciba.ask(id))
        while (provider.polls.length < 2) yield* Effect.sleep(20)
        assert.isAtLeast(provider.polls[1]! - provider.polls[0]!, 300)
        // Five seconds more.
        yield* Effect.sleep(1000)
        assert.lengthOf(provider.polls, 2)
        yield* Fiber.interrupt(asked)
      })
    ))

  it.effect("asks once at a time, about each operation that waits", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const { id } = yield* waiting
        provider.behaviour.polls = Array.from({ length: 10 }, () => pending)
        const both = yield* Effect.all([ciba.ask(id), ciba.ask(id)], { concurrency: 2 })
        assert.deepStrictEqual(both.map(({ state }) => state), ["approved", "approved"])
        assert.lengthOf(provider.questions, 1)
        const { id: next } = yield* waiting
        const loop = yield* Effect.forkChild(ciba.askPending)
        while ((yield* stateOf(next)) === "pending") yield* Effect.sleep(20)
        yield* Fiber.interrupt(loop)
        assert.strictEqual(yield* stateOf(next), "approved")
      })
    ))

  it.effect("asks an owner although a hundred operations of another one wait, who does not answer", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        provider.behaviour.answer = "nothing"
        const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
        for (let n = 0; n < 100; n++) yield* accept(identity, { terms })
        const { owner } = yield* waiting
        const loop = yield* Effect.forkChild(ciba.askPending)
        const questionsTo = (owner: ResourceOwner) =>
          provider.questions.filter(({ login_hint }) => login_hint === `account of ${owner}`)
        while (questionsTo(owner).length === 0 || questionsTo(grant.resource_owner).length < 5) yield* Effect.sleep(20)
        yield* Fiber.interrupt(loop)
        assert.lengthOf(questionsTo(grant.resource_owner), 5)
      })
    ))

  for (const mode of ["poll", "ping"] as const) {
    it.effect(`asks no longer once an operator has decided (${mode})`, () =>
      withProvider((provider, ciba) =>
        Effect.gen(function*() {
          const { id } = yield* waiting
          Object.assign(provider.behaviour, { answer: "nothing", expiry: 300 })
          const asked = yield* Effect.forkChild(ciba.ask(id))
          while ((mode === "poll" ? provider.polls : provider.questions).length === 0) yield* Effect.sleep(20)
          const approvals = yield* Approvals
          const { request_digest } = (yield* approvals.find(id))!
          yield* approvals.decide({
            operation_id: id,
            request_digest,
            decision: "denied",
            decider: { as: "operator", name: "anna", via: mode === "poll" ? "console" : "command" },
            reason: "the owner called"
          })
          const polls = provider.polls.length
          // A reminder would end it, too, after a minute.
          const ended = yield* Effect.timeoutOption(Fiber.await(asked), "40 seconds")
          assert.deepStrictEqual(Option.map(ended, failureOf), Option.some("CibaUndecided not_waiting"))
          // One may have left before the decision.
          assert.isAtMost(provider.polls.length, mode === "poll" ? polls + 1 : 0)
          assert.deepStrictEqual((yield* recordOf(id)).map(({ operator, result }) => [operator, result]), [[
            "anna",
            "done"
          ]])
        }), { mode }))
  }

  it.effect("takes a notification of the question with its token, and polls once for each", () =>
    withProvider((provider, ciba) =>
      Effect.gen(function*() {
        const run = Effect.runPromiseWith(yield* Effect.context<never>())
        const receive = (request: Request) =>
          run(Effect.map(
            Effect.provideService(
              ciba.notification,
              HttpServerRequest.HttpServerRequest,
              HttpServerRequest.fromWeb(request)
            ),
            (response) => HttpServerResponse.toWeb(response)
          ))
        let sent: Request | null = null
        provider.notify.send = (request) => {
          sent = request.clone()
          return receive(request)
        }
        const { id, owner } = yield* waiting
        // The notification overtakes the response to the request.
        assert.deepInclude(yield* ciba.ask(id), { state: "approved", decider: owner })
        assert.lengthOf(provider.polls, 1)
        const { client_notification_token: old } = provider.questions[0]!
        assert.match(old!, /^[\w-]{43}$/)
        assert.strictEqual((yield* Effect.promise(() => receive(sent!))).status, 401)

        const { id: next } = yield* waiting
        provider.behaviour.answer = "nothing"
        const asked = yield* Effect.forkChild(ciba.ask(next))
        while (provider.questions.length < 2) yield* Effect.sleep(20)
        const { auth_req_id, client_notification_token: token } = provider.questions[1]!
        const notify = (token: string, body: string) =>
          Effect.promise(() =>
            receive(
              new Request(notificationUrl, { method: "POST", body, headers: { authorization: `Bearer ${token}` } })
            )
          )
        const right = JSON.stringify({ auth_req_id })
        assert.strictEqual((yield* notify(token!, right)).status, 204)
        while (provider.polls.length < 2) yield* Effect.sleep(20)
        for (
          const [given, body] of [
            [old, right],
            [`${token!.slice(0, -1)}${token!.endsWith("A") ? "B" : "A"}`, right],
            [token, "{\"auth_req_id\":\"another\"}"],
            [token, "no JSON"]
          ] as const
        ) {
          assert.strictEqual((yield* notify(given!, body)).status, 401)
        }
        assert.lengthOf(provider.polls, 2)
        yield* Fiber.interrupt(asked)
        assert.strictEqual(yield* stateOf(next), "pending")
      }), { mode: "ping" }))
})
