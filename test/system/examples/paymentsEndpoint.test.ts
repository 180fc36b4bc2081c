/**
 * A mutation endpoint accepts each payment once, and refuses others with the right problem. The tests send HTTP to the
 * example's endpoint, over a ledger in memory.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Redacted, Schema, type Scope } from "effect"
import { HttpRouter } from "effect/http"
import { Payment, paymentsWrite } from "../../../examples/payments/Api.ts"
import { PaymentsRoutes } from "../../../examples/payments/Handlers.ts"
import { operationsRead } from "../../../src/domain/Grant.ts"
import type { FinancialRequest } from "../../../src/domain/Idempotency.ts"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { layerProviderPayloads } from "../../../src/services/ProviderPayloads.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { type Answer, rent } from "../../fixtures/examples/paymentsProcess.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { expiredIn, InMemoryLedger, issue } from "../../fixtures/ledger/Ledger.ts"

type Services = Layer.Success<typeof InMemoryLedger>

interface Sent {
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly query?: string
}

/** The endpoint on a ledger in memory, and its address. Services of the ledger can be replaced. */
const endpoint = Effect.fnUntraced(
  function*(replace: (context: Context.Context<Services>) => Context.Context<Services>) {
    const ledger = yield* Effect.context<Services>()
    const routes = PaymentsRoutes.pipe(
      Layer.provide([Layer.succeedContext(replace(ledger)), Lifecycle.layer(), BaseUrl.layer(baseUrl)]),
      Layer.provideMerge(NodeHttpServer.layerHttpServices),
      Layer.provideMerge(Logger.layer([]))
    )
    const { handler } = yield* Effect.acquireRelease(
      Effect.sync(() => HttpRouter.toWebHandler(routes, { disableLogger: true })),
      ({ dispose }) => Effect.promise(() => dispose())
    )
    return ({ body = JSON.stringify(rent), headers = { "idempotency-key": "key" }, query = "", token }: Sent) =>
      Effect.promise(async (): Promise<Answer> => {
        const response = await handler(
          new Request(`${baseUrl}/v1/payments${query}`, {
            method: "POST",
            body,
            headers: {
              "content-type": "application/json",
              ...token === undefined ? {} : { authorization: `Bearer ${token}` },
              ...headers
            }
          })
        )
        return {
          status: response.status,
          location: response.headers.get("location"),
          retryAfter: response.headers.get("retry-after"),
          challenge: response.headers.get("www-authenticate"),
          body: await response.json()
        }
      })
  }
)

const asItIs = endpoint((context) => context)

const mayPay = { scopes: [operationsRead, paymentsWrite] }

const tokenOf = ({ access_token }: { readonly access_token: Redacted.Redacted<string> }) => Redacted.value(access_token)

const test = (name: string, effect: Effect.Effect<void, unknown, Services | Scope.Scope>) =>
  it.live(name, () => effect.pipe(Effect.scoped, Effect.provide(InMemoryLedger)))

describe("An endpoint that takes payments", () => {
  test(
    "answers 202 with the operation, its URL, and the time of the next read",
    Effect.gen(function*() {
      const send = yield* asItIs
      const { body, location, retryAfter, status } = yield* send({ token: tokenOf(yield* issue(mayPay)) })
      assert.strictEqual(status, 202)
      assert.strictEqual(location, `${baseUrl}/v1/operations/${body.id}`)
      assert.strictEqual(retryAfter, "1")
      assert.deepInclude(body, { type: "payment", state: "accepted", revision: 1 })
    })
  )

  test(
    "gives the ledger the terms of the payment",
    Effect.gen(function*() {
      const accepted: Array<FinancialRequest> = []
      const send = yield* endpoint((context) => {
        const ledger = Context.get(context, OperationLedger)
        return Context.add(context, OperationLedger, {
          ...ledger,
          accept: (grant, request, scope) => {
            accepted.push(request)
            return ledger.accept(grant, request, scope)
          }
        })
      })
      const { body } = yield* send({ token: tokenOf(yield* issue(mayPay)) })
      assert.deepStrictEqual(accepted.map(({ terms }) => terms), [
        { amount: "750.00", currency: "EUR", payee: rent.creditor.iban }
      ])
      assert.notInclude(JSON.stringify(body), "750.00")
    })
  )

  test(
    "requires the scope of the operation, and its challenge names that scope",
    Effect.gen(function*() {
      const send = yield* asItIs
      const { body, challenge, status } = yield* send({ token: tokenOf(yield* issue()) })
      assert.deepStrictEqual([status, body.code], [403, "insufficient_scope"])
      assert.match(challenge ?? "", /error="insufficient_scope".*, scope="payments:write", resource_metadata="[^"]+"$/)
    })
  )

  test(
    "refuses a grant without good standing, with any scopes, and records nothing",
    Effect.gen(function*() {
      const send = yield* asItIs
      const grants = yield* Grants
      const ledger = yield* OperationLedger
      const revoked = yield* issue()
      yield* grants.revoke(revoked.grant.grant_id)
      const inactive = yield* issue(mayPay)
      yield* grants.setClientActive(inactive.grant.client_id, false)
      const disconnected = yield* issue(mayPay)
      yield* grants.setProviderConnected(disconnected.grant.provider_connection_id, false)
      const expired = yield* issue({ ...mayPay, expires_in: expiredIn })
      const table = [
        [revoked, 401, "grant_revoked"],
        [expired, 401, "grant_revoked"],
        [inactive, 401, "client_inactive"],
        [disconnected, 403, "provider_disconnected"]
      ] as const
      for (const [issued, status, code] of table) {
        const answer = yield* send({ token: tokenOf(issued) })
        assert.deepStrictEqual([answer.status, answer.body.code], [status, code])
      }
      assert.isTrue(yield* ledger.isEmpty)
    })
  )

  test(
    "checks the credential first, then key, media type, query and body, in this order",
    Effect.gen(function*() {
      const send = yield* asItIs
      const token = tokenOf(yield* issue())
      const key = { "idempotency-key": "key" }
      const table: ReadonlyArray<readonly [Sent, number, string]> = [
        [{ headers: {} }, 401, "missing_credentials"],
        [{ token, headers: { "content-type": "text/plain" }, body: "x" }, 400, "idempotency_key_required"],
        [{ token, headers: { "idempotency-key": " " } }, 400, "idempotency_key_required"],
        [{ token, headers: { "idempotency-key": "a, b", "content-type": "text/plain" } }, 422, "invalid_request"],
        [{ token, headers: { ...key, "content-type": "text/plain" }, query: "?x=1" }, 415, "unsupported_media_type"],
        [{ token, headers: { ...key, "content-type": "application/jsonx" } }, 415, "unsupported_media_type"],
        [{ token, query: "?x=1", body: "{" }, 422, "invalid_request"],
        [{ token, body: "x".repeat(65_537) }, 413, "payload_too_large"],
        [{ token, body: "{" }, 422, "invalid_request"],
        [{ token, body: "" }, 422, "invalid_request"],
        [{ token, body: "{}" }, 422, "invalid_request"],
        [{ token, headers: { ...key, "content-type": "Application/JSON; charset=utf-8" } }, 403, "insufficient_scope"]
      ]
      for (const [sent, status, code] of table) {
        const answer = yield* send(sent)
        assert.deepStrictEqual([answer.status, answer.body.code], [status, code], JSON.stringify(sent).slice(0, 200))
      }
    })
  )

  test(
    "names every invalid member, and repeats no content of the request",
    Effect.gen(function*() {
      const send = yield* asItIs
      const token = tokenOf(yield* issue(mayPay))
      const payment = { amount: "hunter2", creditor: { name: "", iban: "hunter2" }, hunter3: 1 }
      const { body } = yield* send({ token, body: JSON.stringify(payment) })
      const fields = body.fields as ReadonlyArray<{ readonly path: string; readonly message: string }>
      assert.sameMembers(
        fields.map(({ path }) => path),
        ["body.amount", "body.currency", "body.creditor.name", "body.creditor.iban", "body.hunter3"]
      )
      for (const { message } of fields) assert.notMatch(message, /hunter/)
    })
  )

  test(
    "names the members of a payment that the provider of the grant cannot carry out, and returns earlier payments",
    Effect.gen(function*() {
      const token = tokenOf(yield* issue(mayPay))
      const earlier = yield* Effect.flatMap(asItIs, (send) => send({ token }))
      const Domestic = Schema.Struct({
        ...Payment.fields,
        currency: Schema.Literal("EUR"),
        creditor: Schema.Struct({ iban: Schema.String.check(Schema.isStartingWith("AT")) })
      })
      const ledger = yield* Layer.build(
        Layer.fresh(OperationLedger.layerMemory).pipe(
          Layer.provide(layerProviderPayloads({ bank: { payment: Domestic } }))
        )
      )
      const send = yield* endpoint((context) => Context.merge(context, ledger))
      const sent = { token, headers: { "idempotency-key": "another" } }
      const { body, status } = yield* send(sent)
      assert.deepStrictEqual([status, body.code], [422, "invalid_request"])
      const fields = body.fields as ReadonlyArray<{ readonly path: string }>
      assert.sameMembers(fields.map(({ path }) => path), ["body.creditor.iban", "body.creditor.name"])
      assert.notInclude(JSON.stringify(body.fields), rent.creditor.iban)
      const repeated = yield* send({ token })
      assert.deepStrictEqual([repeated.status, repeated.body.id], [202, earlier.body.id])
    })
  )

  test(
    "reports an unavailable store as retryable, and the submission as certain",
    Effect.gen(function*() {
      const token = tokenOf(yield* issue(mayPay))
      const away = Effect.fail(new StoreUnavailable({ cause: new Error("gone") }))
      const send = yield* endpoint((context) =>
        Context.add(context, OperationLedger, {
          ...Context.get(context, OperationLedger),
          // It was recorded: only the answer of the store was lost.
          accept: (grant, request) => Effect.andThen(Context.get(context, OperationLedger).accept(grant, request), away)
        })
      )
      const { body, retryAfter, status } = yield* send({ token })
      assert.deepStrictEqual([status, body.code, retryAfter], [503, "service_unavailable", "1"])
      assert.deepStrictEqual([body.retryable, body.submission_uncertain], [true, false])
      assert.match(body.detail, /same idempotency key/)

      const repeated = yield* Effect.flatMap(asItIs, (send) => send({ token }))
      assert.deepStrictEqual([repeated.status, repeated.body.revision], [202, 1])
    })
  )

  test(
    "refuses a payload without a canonical form, because its repetition could not be recognized",
    Effect.gen(function*() {
      const send = yield* asItIs
      const token = tokenOf(yield* issue(mayPay))
      const body = JSON.stringify({ ...rent, creditor: { ...rent.creditor, name: "?" } }).replace("?", "\\ud800")
      const answer = yield* send({ token, body })
      assert.deepStrictEqual([answer.status, answer.body.code], [422, "invalid_request"])
    })
  )
})
