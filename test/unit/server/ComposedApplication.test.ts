/**
 * An application with a mutation endpoint has one documentation, complete problems on every path, and a typed client. The
 * tests serve one on a socket, over a ledger in memory.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClientRequest, HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { makeClient } from "../../../src/api/Client.ts"
import { Gate, OpenGate } from "../../../src/api/Middleware.ts"
import { mutationEndpoint } from "../../../src/api/MutationEndpoint.ts"
import type { FinancialOperations } from "../../../src/domain/AuthorizationDetails.ts"
import { operationsRead, Scope } from "../../../src/domain/Grant.ts"
import type { Operation, OperationId } from "../../../src/domain/Operation.ts"
import { GateLayer } from "../../../src/server/gate/Gate.ts"
import { layerServer } from "../../../src/server/Gateway.ts"
import { MutationEndpoints } from "../../../src/server/mutations/MutationEndpoints.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { composedServer, send } from "../../fixtures/http/ComposedServer.ts"
import { assertProblem, baseUrl, mutationProblemTable, type Problem } from "../../fixtures/http/HttpProblem.ts"
import type { Answer } from "../../fixtures/http/HttpWire.ts"
import { issue } from "../../fixtures/ledger/Ledger.ts"

const paymentsWrite = Scope.make("payments:write")

const Note = Schema.Struct({ text: Schema.String })

class TeamApi extends HttpApi.make("team").add(
  HttpApiGroup.make("payments").add(
    mutationEndpoint("pay", "/v1/accounts/:account/payments", {
      params: { account: Schema.String },
      payload: Schema.Struct({ amount: Schema.String }),
      terms: ({ amount }) => ({ amount, currency: "EUR", payee: "Landlord" }),
      summary: "Pay"
    }),
    mutationEndpoint("charge", "/v1/fees", { payload: Schema.Struct({ amount: Schema.String }), summary: "Charge" }),
    mutationEndpoint("order", "/v1/orders", {
      payload: Schema.Struct({ side: Schema.Literal("buy"), amount: Schema.String })
    }),
    mutationEndpoint("stop", "/v1/stops", { payload: Schema.Struct({ action: Schema.Literal("stop") }) }),
    mutationEndpoint("pause", "/v1/pauses", { payload: Schema.Literal("pause") }),
    mutationEndpoint("send", "/v1/sendings", {
      payload: Schema.Union([
        Schema.Struct({ iban: Schema.String, amount: Schema.String }),
        Schema.Struct({ card: Schema.String, amount: Schema.String, note: Schema.optionalKey(Schema.String) })
      ])
    }),
    HttpApiEndpoint.post("note", "/v1/notes", { payload: Note, success: Schema.String }).middleware(Gate),
    HttpApiEndpoint.post("ask", "/v1/questions", { payload: Note, success: Schema.String }).middleware(OpenGate),
    HttpApiEndpoint.get("hello", "/hello", { success: Schema.Struct({ message: Schema.String }) })
  )
).annotateMerge(OpenApi.annotations({ title: "Team Payments", version: "2.3.4" })) {}

const Handlers = HttpApiBuilder.group(
  TeamApi,
  "payments",
  Effect.fn(function*(handlers) {
    const { accept } = yield* MutationEndpoints
    const take = (type: string) => ({ payload }: { readonly payload: Schema.Json }) =>
      accept({ type, scope: paymentsWrite, payload })
    return handlers
      .handle("pay", ({ params, payload }) => take("payment")({ payload: { ...params, ...payload } }))
      .handle("charge", take("fee"))
      .handle("order", take("order"))
      .handle("stop", take("stop"))
      .handle("pause", take("pause"))
      .handle("send", take("sending"))
      .handle("note", ({ payload }) => Effect.succeed(payload.text))
      .handle("ask", ({ payload }) => Effect.succeed(payload.text))
      .handle("hello", () => Effect.succeed({ message: "hello" }))
  })
)

const TeamRoutes = Layer.mergeAll(
  HttpApiBuilder.layer(TeamApi).pipe(Layer.provide(Handlers), Layer.provide([MutationEndpoints.layer, GateLayer])),
  HttpRouter.add("GET", "/logo", HttpServerResponse.text("logo"))
)

const Application = composedServer(layerServer(TeamRoutes, [TeamApi]))

/** Checks that the answer is a complete problem of this code. */
const assertCode = (answer: Answer, code: string): Problem => {
  const problem = assertProblem(answer)
  assert.strictEqual(problem.code, code)
  return problem
}

const client = Effect.fnUntraced(function*(accessToken: Redacted.Redacted<string>) {
  const { address } = yield* HttpServer.HttpServer
  return yield* makeClient(TeamApi, { baseUrl: HttpServer.formatAddress(address), accessToken }).pipe(
    Effect.provide(FetchHttpClient.layer)
  )
})

const ofAccount = "/v1/accounts/a-1/payments"

/** Posts this body, and checks nothing of the answer. */
const post = (accessToken: Redacted.Redacted<string>, key: string, body: Schema.Json, target = ofAccount) =>
  send(
    HttpClientRequest.post(target).pipe(
      HttpClientRequest.bearerToken(accessToken),
      HttpClientRequest.setHeader("idempotency-key", key),
      HttpClientRequest.bodyJsonUnsafe(body)
    )
  )

const mayPay = { scopes: [operationsRead, paymentsWrite] }

const payment = (key: string, amount = "12.00") => ({
  params: { account: "a-1" },
  headers: { "idempotency-key": key },
  payload: { amount }
})

interface Document {
  readonly info: { readonly title: string; readonly version: string }
  readonly tags: ReadonlyArray<{ readonly name: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, unknown>>>>>>
}

layer(Application, { excludeTestServices: true })("A composed application", (it) => {
  it.effect("refuses what the limits of the grant do not permit, and says what remains of them and until when", () =>
    Effect.gen(function*() {
      const pay = Effect.fnUntraced(function*(detail: Partial<FinancialOperations>) {
        const authorization_details = [{ type: "financial_operations" as const, ...detail }]
        const { access_token } = yield* issue({ ...mayPay, authorization_details })
        const { payments } = yield* client(access_token)
        return (key: string) => payments.pay(payment(key))
      })
      const budget = { currency: "EUR", amount: "20.00", per: "day", time_zone: "Europe/Berlin" } as const
      const spend = yield* pay({ budgets: [budget] })
      yield* spend("limits-1")
      const exceeded = yield* Effect.flip(spend("limits-2"))
      assert(exceeded._tag === "LimitExceeded")
      assert.strictEqual(exceeded.detail, "The grant permits 20.00 EUR per day (Europe/Berlin), and 8.00 EUR remain.")
      const { fields, retryable } = exceeded
      assert.isFalse(retryable)
      assert(fields !== null)
      assert.deepStrictEqual(fields.map(({ path }) => path), ["limit", "remaining", "resets_at"])
      assert.deepStrictEqual(fields.slice(0, 2).map(({ message }) => message), [
        "20.00 EUR per day (Europe/Berlin)",
        "8.00 EUR"
      ])
      assert.isAbove(Date.parse(fields[2]!.message), Date.now())
      // A repetition reserves nothing.
      yield* spend("limits-1")
      const most = yield* Effect.flip((yield* pay({ max_amount: [{ currency: "EUR", amount: "5.00" }] }))("limits-3"))
      assert(most._tag === "LimitExceeded")
      assert.deepStrictEqual(most.fields, [
        { path: "limit", message: "5.00 EUR for one operation" },
        { path: "remaining", message: "5.00 EUR" }
      ])
      const payee = yield* Effect.flip((yield* pay({ payees: ["Library"] }))("limits-4"))
      assert.strictEqual(payee._tag, "PayeeNotAllowed")
      const type = yield* Effect.flip((yield* pay({ operation_types: ["transfer"] }))("limits-5"))
      assert.strictEqual(type._tag, "OperationNotCovered")
    }))

  it.effect("answers each refusal by limits with a complete problem", () =>
    Effect.gen(function*() {
      const amount = { currency: "EUR", amount: "5.00" }
      const table: ReadonlyArray<readonly [code: string, detail: Partial<FinancialOperations>, target?: string]> = [
        ["limit_exceeded", { budgets: [{ ...amount, per: "day" }] }],
        ["limit_exceeded", { max_amount: [amount] }],
        ["payee_not_allowed", { payees: ["Library"] }],
        ["operation_not_covered", { operation_types: ["transfer"] }],
        ["terms_required", {}, "/v1/fees"]
      ]
      for (const [code, detail, target] of table) {
        const { access_token } = yield* issue({
          ...mayPay,
          authorization_details: [{ type: "financial_operations", ...detail }]
        })
        const answer = yield* post(access_token, code, { amount: "12.00" }, target)
        assert.strictEqual<string>(assertProblem(answer, mutationProblemTable).code, code, answer.text)
      }
    }))

  it.effect.each(["approved", "denied"] as const)(
    "answers 202 for an operation that waits for an approval, and tells its clients when it is %s",
    (decision) =>
      Effect.gen(function*() {
        const approval = { above: [{ currency: "EUR", amount: "10.00" }] }
        const { access_token, grant } = yield* issue({
          ...mayPay,
          authorization_details: [{ type: "financial_operations", approval }]
        })
        const read = (target: string, headers: Readonly<Record<string, string>> = {}) =>
          send(
            HttpClientRequest.get(target).pipe(
              HttpClientRequest.bearerToken(access_token),
              HttpClientRequest.setHeaders(headers)
            )
          )
        const changes = (query = "") =>
          Effect.map(
            read(`/v1/operations/changes${query}`),
            ({ text }) => JSON.parse(text) as { readonly operations: unknown; readonly next_change_token: string }
          )
        const accepted = yield* post(access_token, "approval", { amount: "12.00" })
        assert.strictEqual(accepted.status, 202, accepted.text)
        const waiting = JSON.parse(accepted.text) as Operation
        assert.deepInclude(waiting, { state: "accepted", under_review: true, terminal: false })
        const target = `/v1/operations/${waiting.id}`
        const before = yield* read(target)
        assert.deepStrictEqual(JSON.parse(before.text), waiting)
        const told = yield* changes()
        assert.deepStrictEqual<unknown>(told.operations, [waiting])
        const { decide, find } = yield* Approvals
        const { request_digest } = (yield* find(waiting.id))!
        const decider = { as: "owner", name: grant.resource_owner } as const
        yield* decide({ operation_id: waiting.id, request_digest, decision, decider, reason: null })
        const after = yield* read(target, { "if-none-match": before.headers["etag"]! })
        assert.strictEqual(after.status, 200)
        assert.notStrictEqual(after.headers["etag"], before.headers["etag"])
        const decided: unknown = JSON.parse(after.text)
        const state = decision === "approved" ? "accepted" : "cancelled"
        assert.deepInclude(decided, { id: waiting.id, state, under_review: false })
        assert.deepStrictEqual((yield* changes(`?after=${told.next_change_token}`)).operations, [decided])
      })
  )

  it.effect("documents its endpoints and the gateway's in one document, under its own title and version", () =>
    Effect.gen(function*() {
      const answer = yield* send(HttpClientRequest.get("/openapi.json"))
      const { info, paths, tags } = JSON.parse(answer.text) as Document
      assert.deepInclude(info, { title: "Team Payments", version: "2.3.4" })
      assert.deepStrictEqual(tags.map(({ name }) => name), ["payments", "operations", "system"])
      assert.includeMembers(Object.keys(paths), [
        "/v1/accounts/{account}/payments",
        "/hello",
        "/v1/operations",
        "/v1/operations/{id}",
        "/problems/{code}"
      ])
    }))

  it.effect("tells what is wrong with a body that is no JSON, a media type and a key", () =>
    Effect.gen(function*() {
      const { access_token } = yield* issue(mayPay)
      const pay = (headers: Readonly<Record<string, string>>, body: string) =>
        send(
          HttpClientRequest.post(ofAccount).pipe(
            HttpClientRequest.bodyText(body, headers["content-type"] ?? "application/json"),
            HttpClientRequest.setHeaders({
              authorization: `Bearer ${Redacted.value(access_token)}`,
              "idempotency-key": "key",
              ...headers
            })
          )
        )
      for (const body of ["{", "{\"amount\":}"]) {
        const broken = assertCode(yield* pay({}, body), "invalid_request")
        assert.deepStrictEqual([broken.status, broken.detail], [422, "The body is not valid JSON."], body)
        assert.deepStrictEqual(broken.fields?.map(({ path }) => path), ["body"])
      }
      assert.strictEqual(assertCode(yield* pay({}, ""), "invalid_request").detail, "body: Expected object")
      const incomplete = assertCode(yield* pay({}, "{}"), "invalid_request")
      assert.strictEqual(
        incomplete.detail,
        incomplete.fields!.map(({ message, path }) => `${path}: ${message}`).join("; ")
      )
      const text = yield* pay({ "content-type": "text/plain" }, "{}")
      assert.strictEqual(text.status, 415)
      assert.match((JSON.parse(text.text) as Problem).detail, /^The endpoint reads application\/json\. /)
      const list = assertCode(yield* pay({ "idempotency-key": "a,b" }, "{}"), "invalid_request")
      assert.match(
        list.fields![0]!.message,
        /without commas, semicolons, quotes or backslashes unless the key is in quotes$/
      )
    }))

  it.effect.each(["/v1/notes", "/v1/questions"])(
    "refuses another media type and an unknown query at an endpoint of its own with a body, by a complete problem: %s",
    (path) =>
      Effect.gen(function*() {
        const { access_token } = yield* issue(mayPay)
        const ask = (type: string, query = "", token = Redacted.value(access_token)) =>
          send(
            HttpClientRequest.post(path + query).pipe(
              HttpClientRequest.bearerToken(token),
              HttpClientRequest.bodyText("{\"text\":\"a\"}", type)
            )
          )
        for (const type of ["application/json", "Application/JSON ; charset=utf-8"]) {
          assert.strictEqual((yield* ask(type)).text, "\"a\"")
        }
        const other = assertProblem(yield* ask("text/plain", "?x=1"), mutationProblemTable)
        assert.deepStrictEqual<unknown>([other.code, other.status], ["unsupported_media_type", 415])
        assert.match(other.detail, /^The endpoint reads application\/json\. /)
        const query = assertCode(yield* ask("application/json", "?x=1"), "invalid_request")
        assert.deepStrictEqual(query.fields?.map(({ path }) => path), ["query.x"])
        if (path === "/v1/notes") assertCode(yield* ask("text/plain", "?x=1", "unknown"), "invalid_token")
      })
  )

  const fieldsOf = Effect.fnUntraced(function*(path: string, body: Schema.Json) {
    const { access_token } = yield* issue(mayPay)
    return assertCode(yield* post(access_token, "key", body, path), "invalid_request").fields!.map((
      { message, path }
    ) => `${path}: ${message}`)
  })

  it.effect("names the member of a body that is not the literal of its only payload, and all others that do not fit", () =>
    Effect.gen(function*() {
      const bodies: ReadonlyArray<readonly [path: string, body: Schema.Json, ...fields: ReadonlyArray<string>]> = [
        ["/v1/orders", { side: "sell", amount: "1.00" }, "body.side"],
        ["/v1/orders", { amount: "1.00" }, "body.side"],
        ["/v1/orders", { side: "sell", amount: 1, note: "" }, "body.note", "body.side", "body.amount"],
        ["/v1/orders", { side: "buy", amount: 1 }, "body.amount"],
        ["/v1/orders", ["buy"], "body"],
        ["/v1/stops", { action: "go" }, "body.action"],
        ["/v1/stops", {}, "body.action"],
        ["/v1/pauses", "go", "body"]
      ]
      for (const [path, body, ...paths] of bodies) {
        const fields = yield* fieldsOf(path, body)
        assert.sameMembers(fields.map((field) => field.split(":")[0]), paths, JSON.stringify(fields))
      }
    }))

  it.effect("names the failures of the member of a union that fits best, and one failure if none does", () =>
    Effect.gen(function*() {
      const forms = "body: Expected { iban, amount } | { card, amount, note? }"
      const bodies: ReadonlyArray<readonly [body: Schema.Json, ...fields: ReadonlyArray<string>]> = [
        [{ iban: 1, amount: 1 }, "body.iban: Expected string", "body.amount: Expected string"],
        [{ card: "1", amount: "1", note: 1 }, "body.note: Expected string"],
        [{ amount: "1" }, forms],
        [{}, forms],
        [{ amount: "1", iban: "1", card: "1" }, forms]
      ]
      for (const [body, ...fields] of bodies) assert.sameMembers(yield* fieldsOf("/v1/sendings", body), fields)
    }))

  it.effect("shows its own endpoints on the page /docs", () =>
    Effect.gen(function*() {
      const { headers, status, text } = yield* send(HttpClientRequest.get("/docs"))
      assert.strictEqual(status, 200)
      assert.match(headers["content-type"] ?? "", /^text\/html/)
      assert.include(text, "<title>Team Payments</title>")
      for (const path of ["/v1/accounts/{account}/payments", "/hello", "/v1/operations/{id}"]) {
        assert.include(text, JSON.stringify(path))
      }
    }))

  it.effect("has complete problems with a request id for unknown routes, wrong methods and long targets", () =>
    Effect.gen(function*() {
      assertCode(yield* send(HttpClientRequest.get("/nowhere")), "route_not_found")
      const wrong = yield* send(HttpClientRequest.get(ofAccount))
      assertCode(wrong, "method_not_allowed")
      assert.strictEqual(wrong.headers["allow"], "POST, OPTIONS")
      const posted = yield* send(HttpClientRequest.post("/hello"))
      assertCode(posted, "method_not_allowed")
      assert.strictEqual(posted.headers["allow"], "GET, HEAD, OPTIONS")
      assertCode(yield* send(HttpClientRequest.get(`/hello?x=${"x".repeat(9000)}`)), "uri_too_long")
      assert.strictEqual((yield* send(HttpClientRequest.options("/hello"))).status, 204)
      const logo = yield* send(HttpClientRequest.get("/logo"))
      assert.strictEqual(logo.text, "logo")
      assert.match(logo.headers["x-request-id"] ?? "", /^[0-9a-f-]{36}$/)
    }))

  it.effect("accepts a payment of its typed client once for each key, and gives problems that catchTag handles", () =>
    Effect.gen(function*() {
      const { access_token } = yield* issue(mayPay)
      const team = yield* client(access_token)
      const first = yield* team.payments.pay(payment("order-17"))
      const again = yield* team.payments.pay(payment("order-17"))
      assert.strictEqual(again.body.id, first.body.id)
      assert.strictEqual(first.headers.location, `${baseUrl}/v1/operations/${first.body.id}`)
      const reused = yield* team.payments.pay(payment("order-17", "13.00")).pipe(
        Effect.as("paid"),
        Effect.catchTag("IdempotencyKeyReused", ({ _tag, code, status }) => Effect.succeed(`${_tag} ${code} ${status}`))
      )
      assert.strictEqual(reused, "IdempotencyKeyReused idempotency_key_reused 422")
      const stranger = yield* client(Redacted.make("unknown"))
      const refused = yield* stranger.payments.pay(payment("order-18")).pipe(
        Effect.as("paid"),
        Effect.catchTags({ Unauthorized: ({ code }) => Effect.succeed(code) })
      )
      assert.strictEqual(refused, "invalid_token")
    }))

  it.effect("marks the answer to a repetition, and neither the first answer nor a problem", () =>
    Effect.gen(function*() {
      const { access_token } = yield* issue(mayPay)
      const pay = (amount: string) => post(access_token, "order-20", { amount })
      const answers = yield* Effect.forEach(["1.00", "1.00", "2.00", "1.00"], pay)
      const { id } = JSON.parse(answers[0]!.text) as { readonly id: OperationId }
      yield* OperationLedger.use(({ cancel }) => cancel(id, null))
      const settled = yield* pay("1.00")
      const marks = [...answers, settled].map(({ headers, status }) => [status, headers["idempotent-replayed"]])
      assert.deepStrictEqual(marks, [[202, undefined], [202, "true"], [422, undefined], [202, "true"], [202, "true"]])
      assert.isUndefined(settled.headers["retry-after"])
      const team = yield* client(access_token)
      const typed = yield* team.payments.pay(payment("order-21"))
      assert.isUndefined(typed.headers["idempotent-replayed"])
      assert.strictEqual((yield* team.payments.pay(payment("order-21"))).headers["idempotent-replayed"], "true")
    }))

  it.effect("refuses members that the payload does not have, and sends no tag of a problem", () =>
    Effect.gen(function*() {
      const { access_token } = yield* issue(mayPay)
      const answer = yield* post(access_token, "order-19", { amount: "1.00", memo: "x" })
      const problem = assertCode(answer, "invalid_request")
      assert.deepStrictEqual(problem.fields?.map(({ path }) => path), ["body.memo"])
      assert.notInclude(answer.text, "_tag")
    }))

  it.effect("calls its endpoints without knowing the client's middleware, also those without authorization", () =>
    Effect.gen(function*() {
      const team = yield* client(Redacted.make("any"))
      assert.deepStrictEqual(yield* team.payments.hello({}), { message: "hello" })
    }))
})
