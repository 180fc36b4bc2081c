/**
 * Middleware that refuses a body, and query parameters that the endpoint does not have.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { StrictRequest } from "../api/Middleware.ts"
import { bringsSurplus, failingFields } from "./Fields.ts"
import { Problems } from "./ProblemResponses.ts"

/** Implements `StrictRequest`. */
export const StrictRequestLayer: Layer.Layer<StrictRequest, never, Problems> = Layer.effect(
  StrictRequest,
  Effect.map(Problems, (problems) =>
    StrictRequest.of((httpEffect, { endpoint }) => {
      const refuse = Effect.flatMap(failingFields(endpoint), (fields) => problems.fail("invalid_request", { fields }))
      return Effect.contextWith((context: Context.Context<HttpServerRequest | ParsedSearchParams>) => {
        const surplus = bringsSurplus(
          endpoint,
          Context.get(context, HttpServerRequest),
          Context.get(context, ParsedSearchParams)
        )
        return Effect.andThen(surplus ? refuse : Effect.void, httpEffect)
      })
    }))
)
