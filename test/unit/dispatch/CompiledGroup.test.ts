/** A compiled group answers as Effect's own does: the same requests pass both, to an HttpApi that has every form. */
import { assert, describe, it } from "@effect/vitest"
import { Context, DateTime, Effect, Layer, Redacted, Schema, Stream } from "effect"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import {
  HttpApi,
  HttpApiBuilder,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema,
  HttpApiSecurity
} from "effect/http-api"
import type { unhandled } from "effect/Types"
import { ServerContext } from "../../../src/dispatch/CompiledEndpoint.ts"
import * as CompiledGroup from "../../../src/dispatch/CompiledGroup.ts"

class Missing extends Schema.TaggedError<Missing>()("Missing", { id: Schema.String }, { httpApiStatus: 404 }) {}

class Refused extends Schema.TaggedError<Refused>()("Refused", {}, { httpApiStatus: 401 }) {}

class Undeclared extends Schema.TaggedError<Undeclared>()("Undeclared", {}) {}

class Point extends Schema.Class<Point>("Point")({ x: Schema.Finite }) {}

class Caller extends Context.Service<Caller, string>()("test/dispatch/Caller") {}

/** A service that handlers ask for while they run. */
class Depot extends Context.Service<Depot, { readonly name: string }>()("test/dispatch/Depot") {}

class Named
  extends HttpApiMiddleware.Service<Named, { provides: Caller }>()("test/dispatch/Named", { error: Refused })
{}

class Secured extends HttpApiMiddleware.Service<Secured, { provides: Caller }>()("test/dispatch/Secured", {
  error: Refused,
  security: { bearer: HttpApiSecurity.bearer }
}) {}

const Item = Schema.Struct({
  id: Schema.String.check(Schema.isMaxLength(8)),
  count: Schema.Int,
  at: Schema.DateTimeUtcFromString,
  note: Schema.NullOr(Schema.String),
  tag: Schema.optionalKey(Schema.Literals(["a", "b"]))
})

const Unchanged = Schema.Undefined.pipe(
  HttpApiSchema.asNoContent({ decode: () => undefined }),
  HttpApiSchema.status(304)
)

const tagged = { etag: Schema.String.check(Schema.isMinLength(2)), "retry-after": Schema.optionalKey(Schema.Int) }

const strictly = { onExcessProperty: "error" as const }

const Sent = Schema.Struct({
  a: Schema.String,
  n: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))),
  kind: Schema.optionalKey(Schema.Literals(["p", "q"])),
  inner: Schema.optionalKey(Schema.Struct({ at: Schema.DateTimeUtcFromString }))
})

/** What is allowed depends on several members. */
const Checked = Schema.Struct({ a: Schema.String, n: Schema.optionalKey(Schema.Int) }).check(
  Schema.makeFilter(({ a, n }) => n === undefined || a === String(n), { expected: "the same number twice" })
)

const Items = HttpApiGroup.make("items").add(
  HttpApiEndpoint.get("one", "/items/:id", {
    params: { id: Schema.String.check(Schema.isPattern(/^[a-z]+$/)) },
    headers: {
      "if-none-match": Schema.optionalKey(Schema.String),
      "x-mode": Schema.optionalKey(Schema.Literals(["p", "q"]))
    },
    success: [HttpApiSchema.WithHeaders(Item, tagged), HttpApiSchema.WithHeaders(Unchanged, tagged)],
    error: Missing
  }),
  HttpApiEndpoint.get("find", "/items", {
    query: {
      state: Schema.optionalKey(Schema.Array(Schema.Literals(["open", "done"]))),
      page: Schema.optionalKey(Schema.FiniteFromString),
      size: Schema.FiniteFromString.pipe(Schema.withDecodingDefaultKey(Effect.succeed("7"))),
      text: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(3)))
    },
    success: Schema.Struct({ query: Schema.Json })
  }),
  HttpApiEndpoint.get("strict", "/strict", { query: { a: Schema.optionalKey(Schema.String) }, success: Schema.Json })
    .annotate(HttpApi.ParseOptions, strictly),
  HttpApiEndpoint.get("nothing", "/nothing"),
  HttpApiEndpoint.get("accepted", "/accepted", { success: Schema.String.pipe(HttpApiSchema.status(202)) }),
  HttpApiEndpoint.get("text", "/text", { success: Schema.String.pipe(HttpApiSchema.asText()) }),
  HttpApiEndpoint.get("bytes", "/bytes", { success: Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array()) }),
  HttpApiEndpoint.get("point", "/point", { success: [Point, Schema.Struct({ y: Schema.String })] }),
  HttpApiEndpoint.get("whole", "/whole", { success: Item }),
  HttpApiEndpoint.get("typed", "/typed", {
    success: HttpApiSchema.WithHeaders(Schema.Struct({ id: Schema.String }), { "content-type": Schema.String })
  }),
  HttpApiEndpoint.get("raw", "/raw", { success: Schema.String }),
  HttpApiEndpoint.get("stream", "/stream", { success: HttpApiSchema.StreamUint8Array() }),
  HttpApiEndpoint.get("fails", "/fails/:how", { params: { how: Schema.String }, success: Item, error: Missing }),
  HttpApiEndpoint.post("add", "/items/:id", {
    params: { id: Schema.String.check(Schema.isMaxLength(3)) },
    payload: Sent,
    success: Schema.Json,
    error: Missing
  }),
  HttpApiEndpoint.post("addStrictly", "/strict", { payload: Sent, success: Schema.Json })
    .annotate(HttpApi.ParseOptions, strictly),
  HttpApiEndpoint.post("addChecked", "/checked", { payload: Checked, success: Schema.Json }),
  HttpApiEndpoint.post("addAny", "/any", {
    payload: [Sent, Schema.Struct({ n: Schema.Finite }), Schema.String.pipe(HttpApiSchema.asText())],
    success: Schema.Json
  }),
  HttpApiEndpoint.post("addLoosely", "/loose", {
    payload: Schema.Struct({ n: Schema.optionalKey(Schema.Int) }),
    success: Schema.Json
  }),
  HttpApiEndpoint.post("addForm", "/form", {
    payload: Schema.Struct({ a: Schema.String }).pipe(HttpApiSchema.asFormUrlEncoded()),
    success: Schema.Json
  }),
  HttpApiEndpoint.get("search", "/search", { payload: { a: Schema.String }, success: Schema.Json }),
  HttpApiEndpoint.post("addStream", "/stream", { payload: HttpApiSchema.StreamUint8Array(), success: Schema.Number })
).middleware(Named)

const Secrets = HttpApiGroup.make("secrets").add(
  HttpApiEndpoint.get("secret", "/secret", { success: Schema.String })
).middleware(Secured)

const Api = HttpApi.make("sample").add(Items).add(Secrets)

const item = { id: "a", count: 1, at: DateTime.makeUnsafe(0), note: "\"ü\u0001\ud800", tag: "a" as const }

/** Values that their endpoints declare, and values that they do not. */
const outcomes: Readonly<Record<string, Effect.Effect<typeof item, Missing>>> = {
  item: Effect.succeed(item),
  missing: Effect.fail(new Missing({ id: "a" })),
  undeclared: Effect.fail(new Undeclared({}) as never),
  respondable: Effect.fail(HttpServerResponse.text("as it is", { status: 418 }) as never),
  defect: Effect.die(new Error("defect")),
  invalid: Effect.succeed({ ...item, count: 0.5 }),
  long: Effect.succeed({ ...item, id: "123456789" }),
  nothing: Effect.succeed(undefined as never),
  excess: Effect.succeed({ ...item, more: 1 })
}

const layersOf = (group: typeof HttpApiBuilder.group) =>
  HttpApiBuilder.layer(Api).pipe(
    Layer.provide([
      group(Api, "items", (handlers) =>
        handlers.handleAll({
          one: ({ headers, params }) =>
            params.id === "gone"
              ? Effect.fail(new Missing({ id: params.id }))
              : Effect.map(Caller, (caller) => {
                const headersOf = {
                  etag: params.id === "bad" ? "" : caller,
                  ...headers["x-mode"] ? { "retry-after": 1 } : {}
                }
                return headers["if-none-match"] === undefined
                  ? HttpApiSchema.withHeaders({ body: item, headers: headersOf })
                  : HttpApiSchema.withHeaders({ body: undefined, headers: headersOf })
              }),
          find: ({ query }) => Effect.succeed({ query }),
          strict: ({ query }) => Effect.succeed(query),
          nothing: () => Effect.void,
          accepted: () => Effect.map(Depot, ({ name }) => name),
          text: () => Effect.succeed("plain ü"),
          bytes: () => Effect.succeed(new Uint8Array([1, 2])),
          point: ({ request }) => Effect.succeed(request.url.includes("y") ? { y: "1" } : new Point({ x: 1 })),
          whole: () => Effect.succeed(item),
          typed: () =>
            Effect.succeed(
              HttpApiSchema.withHeaders({ body: { id: "a" }, headers: { "content-type": "application/vnd.item+json" } })
            ),
          raw: () => Effect.succeed(HttpServerResponse.text("raw", { status: 203, headers: { "x-own": "1" } })),
          stream: () => Effect.succeed(Stream.make(new Uint8Array([65]))),
          fails: ({ params }) => outcomes[params.how] ?? Effect.succeed(item),
          add: ({ params, payload }) =>
            payload.a === "gone"
              ? Effect.fail(new Missing({ id: params.id }))
              : Effect.map(Caller, (caller) => JSON.stringify([caller, params, payload])),
          addStrictly: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          addChecked: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          addAny: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          addLoosely: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          addForm: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          search: ({ payload }) => Effect.succeed(JSON.stringify(payload)),
          addStream: ({ payload }) => Effect.orDie(Stream.runFold(payload, () => 0, (sum, bytes) => sum + bytes.length))
        })),
      group(Api, "secrets", (handlers) => handlers.handle("secret", () => Caller))
    ]),
    Layer.provide([
      Layer.succeed(Depot, { name: "depot" }),
      Layer.succeed(Named, (handled) =>
        Effect.flatMap(
          HttpServerRequest.HttpServerRequest,
          ({ headers }): Effect.Effect<HttpServerResponse.HttpServerResponse, Refused | unhandled> =>
            headers["x-caller"] === "stranger"
              ? Effect.fail(new Refused({}))
              : Effect.map(
                Effect.provideService(handled, Caller, "caller"),
                HttpServerResponse.setHeader("x-named", "1")
              )
        )),
      Layer.succeed(Secured, {
        bearer: (handled, { credential }) =>
          Redacted.value(credential) === "good"
            ? Effect.provideService(handled, Caller, "secured")
            : Effect.fail(new Refused({}))
      })
    ])
  )

/** The contexts of servers: one does not tell its own, and one has a depot of its own. */
const servers = {
  unknown: Context.empty(),
  known: Context.make(ServerContext, Context.empty()),
  "another depot": Context.add(
    Context.make(Depot, { name: "another" }),
    ServerContext,
    Context.make(Depot, { name: "another" })
  )
}

const handlerOf = (group: typeof HttpApiBuilder.group, server: keyof typeof servers) => {
  const { handler } = HttpRouter.toWebHandler(layersOf(group).pipe(Layer.provide(HttpServer.layerServices)), {
    disableLogger: true
  })
  return (request: Request) => handler(request, servers[server] as never)
}

type Question = readonly [target: string, headers?: Readonly<Record<string, string>>, method?: string, body?: string]

const bodies = [
  "{\"a\":\"1\"}",
  "{\"n\":4,\"a\":\"1\",\"kind\":\"q\"}",
  "{\"a\":\"1\",\"inner\":{\"at\":\"2026-01-01T00:00:00Z\"}}",
  "{\"a\":\"1\",\"inner\":{\"at\":\"never\"}}",
  "{\"a\":\"gone\"}",
  "{\"a\":\"1\",\"a\":\"2\"}",
  "{\"a\":\"1\",\"more\":1}",
  "{\"a\":\"1\",\"__proto__\":{\"n\":1}}",
  "{\"a\":\"1\",\"n\":10}",
  "{\"a\":\"1\",\"n\":1}",
  "{\"a\":\"1\",\"n\":0.5}",
  "{\"a\":1}",
  "{\"n\":1}",
  "{\"kind\":\"r\"}",
  "{}",
  "[]",
  "null",
  "\"a\"",
  "{",
  ""
]

const requests: ReadonlyArray<Question> = [
  ["/items/abc"],
  ["/items/abc", { "if-none-match": "x" }],
  ["/items/abc", { "x-mode": "p" }],
  ["/items/abc", { "x-mode": "other" }],
  ["/items/ABC"],
  ["/items/%20"],
  ["/items/gone"],
  ["/items/bad"],
  ["/items/bad", { "if-none-match": "x" }],
  ["/items/abc", { "x-caller": "stranger" }],
  ["/items"],
  ["/items?state=open"],
  ["/items?state=open&state=done&page=2&size=3"],
  ["/items?state=closed"],
  ["/items?page=x"],
  ["/items?text=abc&other=1"],
  ["/items?text=abcd"],
  ["/items?text=a&text=b"],
  ["/items?__proto__=1&constructor=2"],
  ["/strict"],
  ["/strict?a=1"],
  ["/strict?a=1&b=2"],
  ["/nothing"],
  ["/accepted"],
  ["/text"],
  ["/bytes"],
  ["/point"],
  ["/point?y"],
  ["/whole"],
  ["/typed"],
  ["/whole", {}, "HEAD"],
  ["/whole", {}, "DELETE"],
  ["/raw"],
  ["/stream"],
  ...Object.keys(outcomes).map((how): Question => [`/fails/${how}`]),
  ...bodies.flatMap((body): ReadonlyArray<Question> =>
    ["/items/abc", "/strict", "/checked", "/any", "/loose"].map((
      path
    ) => [path, { "content-type": "application/json" }, "POST", body])
  ),
  ["/items/abcd", { "content-type": "application/json" }, "POST", "{}"],
  ["/items/abc", { "content-type": "application/json", "x-caller": "stranger" }, "POST", "{\"a\":\"1\"}"],
  ...["application/json; charset=utf-8", "APPLICATION/JSON", "text/plain", "application/x-www-form-urlencoded", ""]
    .flatMap((
      type
    ): ReadonlyArray<Question> =>
      ["/items/abc", "/any", "/form", "/stream"].map((
        path
      ) => [path, { "content-type": type }, "POST", "{\"a\":\"1\"}"])
    ),
  ["/form", { "content-type": "application/x-www-form-urlencoded" }, "POST", "a=1"],
  ["/form", { "content-type": "application/x-www-form-urlencoded" }, "POST", "b=1"],
  ["/search?a=1"],
  ["/search"],
  ["/secret"],
  ["/secret", { authorization: "Bearer good" }],
  ["/unknown"]
]

const answer = async (handle: ReturnType<typeof handlerOf>, [target, headers = {}, method = "GET", body]: Question) => {
  const response = await handle(new Request(`http://sample.test${target}`, { method, headers, body: body ?? null }))
  return { status: response.status, headers: [...response.headers], text: await response.text() }
}

describe("A compiled group answers as Effect's does", () => {
  const effect = handlerOf(HttpApiBuilder.group, "unknown")
  for (const server of Object.keys(servers) as ReadonlyArray<keyof typeof servers>) {
    const compiled = handlerOf(CompiledGroup.group, server)
    for (const sent of requests) {
      it.effect(`on a server with the context "${server}": ${JSON.stringify(sent)}`, () =>
        Effect.promise(async () => {
          const expected = await answer(effect, sent)
          assert.deepStrictEqual(await answer(compiled, sent), expected)
        }))
    }
  }
})
