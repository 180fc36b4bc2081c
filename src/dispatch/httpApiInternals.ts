/**
 * Members of Effect that its types do not declare, because they serve `HttpApiBuilder` alone. The tests of this room compare each
 * compiled route with Effect's, and fail if a new version changes them.
 */
import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import type * as HttpRouter from "effect/http/HttpRouter"
import type * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"

/** What a handler gets: the request, and its decoded parts. */
export type HandlerInput = Record<string, unknown>

/** A handler of a group. */
export interface Handler {
  readonly endpoint: HttpApiEndpoint.Top
  readonly handler: (input: HandlerInput) => Effect.Effect<unknown, unknown>
  /** Whether it reads the body itself. */
  readonly isRaw: boolean
  readonly uninterruptible: boolean
}

/** A built group. Its routes have the order of its handlers. */
export interface GroupService {
  readonly routes: ReadonlyArray<HttpRouter.Route>
  readonly handlers: ReadonlyMap<string, Handler>
}

interface Builder {
  readonly handlerToRoute: (
    api: Pick<HttpApi.Top, "annotations">,
    group: HttpApiGroup.Top,
    handler: Handler,
    context: Context.Context<never>
  ) => HttpRouter.Route<unknown>
}

interface Schemas {
  readonly getStatusSuccessSchema: (schema: Schema.Top) => number
  readonly getResponseEncodingSchema: (schema: Schema.Top) => { readonly _tag: string; readonly contentType: string }
  readonly getWithHeadersAnnotation: (ast: SchemaAST.AST) => unknown
  readonly isWithHeadersValue: (value: unknown) => value is HttpApiSchema.withHeaders<unknown, unknown>
  readonly isStreamSchema: (value: unknown) => boolean
  readonly isUpgrade: (value: unknown) => boolean
}

/** How each part of requests and responses is parsed. */
export type SlotParseOptions = Partial<
  Readonly<Record<"params" | "query" | "headers" | "payload" | "success" | "error", SchemaAST.ParseOptions>>
>

interface Apis {
  readonly getSlotParseOptions: (annotations: Context.Context<never>) => SlotParseOptions
}

interface Endpoints {
  readonly getSuccessSchemas: (endpoint: HttpApiEndpoint.Top) => ReadonlyArray<Schema.Top>
  readonly getErrorSchemas: (endpoint: HttpApiEndpoint.Top) => ReadonlyArray<Schema.Top>
}

// oxlint-disable typescript/consistent-type-assertions -- the module that holds these casts

export const { handlerToRoute } = HttpApiBuilder as unknown as Builder

export const {
  getResponseEncodingSchema,
  getStatusSuccessSchema,
  getWithHeadersAnnotation,
  isStreamSchema,
  isUpgrade,
  isWithHeadersValue
} = HttpApiSchema as unknown as Schemas

export const { getErrorSchemas, getSuccessSchemas } = HttpApiEndpoint as unknown as Endpoints

export const { getSlotParseOptions } = HttpApi as unknown as Apis
