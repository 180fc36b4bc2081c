/** Endpoints that answer browsers with a page and programs with JSON. `Accept` decides. */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"

/**
 * Whether an endpoint has pages: an annotation of the endpoint. The gate checks `Accept` by it, and the OpenAPI document declares the page.
 * The schemas of the endpoint describe JSON alone, because typed clients ask for JSON.
 */
export const HasPages = Context.Reference<boolean>("financial-agents-gateway/api/HasPages", {
  defaultValue: () => false
})

/** The media type of a page. */
export const pageMediaType = "text/html"

/** The headers of responses of an endpoint with pages. */
export const pageHeaders = {
  Vary: Schema.optionalKey(Schema.String.annotate({
    description:
      "The form of the response depends on `Accept`. Absent if the request was refused before its form was chosen."
  }))
}
