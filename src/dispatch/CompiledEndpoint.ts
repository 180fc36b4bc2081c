/** The route of one endpoint. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpMethod from "effect/http/HttpMethod"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import {
  getErrorSchemas,
  getSlotParseOptions,
  type Handler,
  type HandlerInput,
  handlerToRoute,
  isStreamSchema,
  isUpgrade,
  isWithHeadersValue,
  type SlotParseOptions
} from "./httpApiInternals.ts"
import { makeReadRecord, undecided } from "./RecordDecoder.ts"
import { makeWriteSuccess } from "./SuccessWriter.ts"

type Responding = Effect.Effect<HttpServerResponse.HttpServerResponse, unknown>

type Api = Pick<HttpApi.Top, "annotations" | "groups">

/** Whether Effect's own route serves the endpoint. */
const isLeft = ({ endpoint, isRaw }: Handler): boolean =>
  isRaw
  || [...endpoint.payload.values()].some(({ encoding }) => encoding._tag === "Stream")
  || [...endpoint.success].some((schema) =>
    isUpgrade(schema) || isStreamSchema("schema" in schema ? schema.schema : schema)
  )
  || [...endpoint.middlewares].some((key) => HttpApiMiddleware.isSecurity(key as HttpApiMiddleware.AnyService))

/** A part of the request that the endpoint declares. */
interface Part {
  readonly name: "params" | "headers" | "query"
  readonly from: (context: Context.Context<never>) => Readonly<Record<string, unknown>>
  readonly read: ReturnType<typeof makeReadRecord>
  readonly interpret: (input: unknown) => Effect.Effect<unknown, HttpApiSchemaError>
}

const sources: Record<Part["name"], Part["from"]> = {
  params: (context) => Context.getUnsafe(context, HttpRouter.RouteContext).params,
  headers: (context) => Context.getUnsafe(context, HttpServerRequest.HttpServerRequest).headers,
  query: (context) => Context.getUnsafe(context, HttpServerRequest.ParsedSearchParams)
}

const partsOf = (endpoint: HttpApiEndpoint.Top, options: SlotParseOptions): ReadonlyArray<Part> => {
  const partOf = (
    name: Part["name"],
    kind: "Params" | "Headers" | "Query",
    schema: Schema.Top | undefined
  ): ReadonlyArray<Part> => {
    if (schema === undefined) return []
    const decode = Schema.decodeUnknownEffect(schema as Schema.Codec<unknown>, options[name])
    return [{
      name,
      from: sources[name],
      read: makeReadRecord(schema.ast, options[name]),
      interpret: (input) => HttpApiSchemaError.wrap(kind, decode(input))
    }]
  }
  const { headers, params, query } = endpoint
  return [
    ...partOf("params", "Params", params),
    ...partOf("headers", "Headers", headers),
    ...partOf("query", "Query", query === undefined ? undefined : Schema.toCodecArrayFromSingle(query))
  ]
}

/** Reads the parts into the input. False if one of them is undecided. */
const readParts = (parts: ReadonlyArray<Part>, context: Context.Context<never>, input: HandlerInput): boolean => {
  for (let index = 0; index < parts.length; index++) {
    const { from, name, read } = parts[index]!
    const value = read(from(context))
    if (value === undecided) return false
    input[name] = value
  }
  return true
}

const interpretParts = (parts: ReadonlyArray<Part>, context: Context.Context<never>, input: HandlerInput) =>
  Effect.forEach(parts, ({ from, interpret, name }) =>
    Effect.map(interpret(from(context)), (value) => {
      input[name] = value
    }), { discard: true })

/** Effect's route of an endpoint without its middleware, and without what `parts` takes away. */
const bareRoute = (
  api: Api,
  group: HttpApiGroup.Top,
  runtime: Handler,
  parts: Partial<HttpApiEndpoint.Top>,
  handler: Handler["handler"]
): Responding => {
  const endpoint = Object.assign(Object.create(Object.getPrototypeOf(runtime.endpoint) as object), runtime.endpoint, {
    params: undefined,
    headers: undefined,
    query: undefined,
    middlewares: new Set(),
    ...parts
  }) as HttpApiEndpoint.Top
  return handlerToRoute(api, group, { ...runtime, endpoint, handler }, Context.empty()).handler
}

/** What Effect's encoder encodes: the outcome of a handler. */
const Outcome = Context.Reference<Effect.Effect<unknown, unknown>>("financial-agents-gateway/dispatch/Outcome", {
  defaultValue: () => Effect.die(new Error("there is no outcome"))
})

/** Effect's encoder of the endpoint, for values and errors alike. */
const makeEncode = (api: Api, group: HttpApiGroup.Top, runtime: Handler) => {
  const error = new Set(getErrorSchemas(runtime.endpoint))
  const route = bareRoute(api, group, runtime, { payload: new Map(), error }, () => Effect.flatten(Outcome))
  return (outcome: Effect.Effect<unknown, unknown>): Responding => Effect.provideService(route, Outcome, outcome)
}

/** What takes the payload that Effect's decoder has decoded. */
const Payload = Context.Reference<{ decoded: unknown }>("financial-agents-gateway/dispatch/Payload", {
  defaultValue: () => ({ decoded: undefined })
})

/** A body that does not become a payload, because Effect answers it. */
class Answered {
  readonly response: HttpServerResponse.HttpServerResponse
  constructor(response: HttpServerResponse.HttpServerResponse) {
    this.response = response
  }
}

/** Effect's decoder of the body. */
const makeInterpretPayload = (api: Api, group: HttpApiGroup.Top, runtime: Handler) => {
  const taken = HttpServerResponse.empty()
  const route = bareRoute(api, group, runtime, { success: new Set() }, ({ payload }) =>
    Effect.map(Payload, (into) => {
      into.decoded = payload
      return taken
    }))
  return Effect.suspend(() => {
    const into: { decoded: unknown } = { decoded: undefined }
    return Effect.matchCauseEffect(Effect.provideService(route, Payload, into), {
      onSuccess: (response) => Effect.succeed(response === taken ? into.decoded : new Answered(response)),
      onFailure: failOfSchema
    })
  })
}

/** Reads the body. */
const makeReadPayload = (api: Api, group: HttpApiGroup.Top, runtime: Handler, options: SlotParseOptions) => {
  const { method, payload } = runtime.endpoint
  const interpret = makeInterpretPayload(api, group, runtime)
  const json = payload.get(jsonType)
  if (json?.encoding._tag !== "Json" || json.schemas.length > 1 || !HttpMethod.hasBody(method)) return () => interpret
  const read = makeReadRecord(json.schemas[0].ast, options.payload)
  return (request: HttpServerRequest.HttpServerRequest) =>
    (request.headers["content-type"] ?? jsonType) !== jsonType
      ? interpret
      : Effect.flatMap(Effect.orDie(request.text), (text) => {
        const value = readText(read, text)
        return value === undecided ? interpret : Effect.succeed(value)
      })
}

const jsonType = "application/json"

/** Reads an object from JSON. Undecided for all that is not one. */
const readText = (read: ReturnType<typeof makeReadRecord>, text: string): unknown => {
  try {
    const parsed: unknown = JSON.parse(text)
    const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)
    return isObject ? read(parsed as Readonly<Record<string, unknown>>) : undecided
  } catch {
    return undecided
  }
}

/** The error of a value that does not fit. */
export interface UnfitValue extends HttpApiSchemaError {
  readonly value?: unknown
}

/** Effect's route ends with a defect if a payload, or a value, does not fit. Middleware sees the error, and the value. */
const failOfSchema = (cause: Cause.Cause<unknown>, value?: unknown): Effect.Effect<never, unknown> => {
  const error = Cause.squash(cause)
  return HttpApiSchemaError.is(error)
    ? Effect.fail(Object.assign(error, { value: isWithHeadersValue(value) ? value.body : value }) satisfies UnfitValue)
    : Effect.failCause(cause)
}

/**
 * The context of a server, which each of its requests starts with. Null: unknown. An adapter that provides it spares each request the
 * merge with the services of a group: without it `/healthz` costs 14 µs in memory, with it 7. If a middleware of the router replaces a service
 * that server and group share, handlers then see the replacement; after a merge they see the service of the group.
 */
export const ServerContext = Context.Reference<Context.Context<never> | null>(
  "financial-agents-gateway/dispatch/ServerContext",
  { defaultValue: () => null }
)

/**
 * The services of a group that its handlers may use. Each one costs each request, so those stay out that only build a server: its router,
 * its layers, and its middleware, which is applied.
 */
const servicesOfHandlers = ({ groups }: Api, services: Context.Context<never>): Context.Context<never> => {
  const endpoints = Object.values(groups).flatMap((group) => Object.values<HttpApiEndpoint.Top>(group.endpoints))
  return Context.omit(
    Scope.Scope,
    HttpRouter.HttpRouter,
    Layer.CurrentMemoMap,
    ...endpoints.flatMap(({ middlewares }) => [...middlewares])
  )(services)
}

/** Adds the services of a group to the context of a request: all of them, or those that its server does not have. */
const makeProvide = (services: Context.Context<never>) => {
  let known: Context.Context<never> | null = null
  let missing: ReadonlyArray<readonly [key: string, service: unknown]> = []
  return (context: Context.Context<never>): Context.Context<never> => {
    const server = Context.get(context, ServerContext)
    if (server === null) return Context.merge(context, services)
    if (server !== known) {
      known = server
      missing = [...services.mapUnsafe].filter(([key, service]) => server.mapUnsafe.get(key) !== service)
    }
    let provided = context
    for (let index = 0; index < missing.length; index++) {
      const [key, service] = missing[index]!
      provided = Context.addUnsafe(provided, key, service as never)
    }
    return provided
  }
}

/** Compiles the route of an endpoint with its services. Null: Effect's own route serves it. */
export const compileEndpoint = (
  api: Api,
  group: HttpApiGroup.Top,
  runtime: Handler,
  services: Context.Context<never>
): Responding | null => {
  if (isLeft(runtime)) return null
  const { endpoint, handler } = runtime
  const annotations = Context.merge(Context.merge(api.annotations, group.annotations), endpoint.annotations)
  const options = getSlotParseOptions(annotations)
  const parts = partsOf(endpoint, options)
  const encode = makeEncode(api, group, runtime)
  const readPayload = endpoint.payload.size === 0 ? null : makeReadPayload(api, group, runtime, options)
  // Compiled encoders have the options of the interpreter that nothing sets.
  const writeSuccess = options.success === undefined ? makeWriteSuccess(endpoint, options.headers) : () => null

  const respond = (value: unknown): Responding => {
    if (HttpServerResponse.isHttpServerResponse(value)) return Effect.succeed(value)
    const written = writeSuccess(value)
    return written === null
      ? Effect.catchCause(encode(Effect.succeed(value)), (cause) => failOfSchema(cause, value))
      : Effect.succeed(written)
  }

  const run = (input: HandlerInput): Responding => Effect.flatMapEager(handler(input), respond)
  const respondTo = readPayload === null
    ? run
    : (input: HandlerInput, request: HttpServerRequest.HttpServerRequest): Responding =>
      Effect.flatMap(readPayload(request), (payload) => {
        if (payload instanceof Answered) return Effect.succeed(payload.response)
        input["payload"] = payload
        return run(input)
      })

  const handled: Responding = Effect.withFiber((fiber) => {
    const { context } = fiber
    const request = Context.getUnsafe(
      context as Context.Context<HttpServerRequest.HttpServerRequest>,
      HttpServerRequest.HttpServerRequest
    )
    const input: HandlerInput = { request, endpoint, group }
    return readParts(parts, context, input)
      ? respondTo(input, request)
      : Effect.flatMap(interpretParts(parts, context, input), () => respondTo(input, request))
  })

  let guarded = handled
  for (const key of endpoint.middlewares) {
    const apply = Context.getUnsafe(services, key as never) as (handled: Responding, of: unknown) => Responding
    guarded = apply(guarded, { group, endpoint })
  }
  const answered = Effect.catchCause(
    guarded,
    (cause) => Effect.catch(Effect.withErrorReporting(Effect.failCause(cause)), (error) => encode(Effect.fail(error)))
  )
  const provide = makeProvide(servicesOfHandlers(api, services))
  return Effect.withFiber((fiber) => {
    // The request restores the context of its fiber.
    fiber.setContext(provide(fiber.context))
    return answered
  })
}
