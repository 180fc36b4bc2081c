/**
 * Endpoints that answer browsers with a page and programs with JSON. `Accept` decides.
 */
import * as Context from "effect/Context"
import * as OpenApi from "effect/http-api/OpenApi"

/** Whether an endpoint has pages: an annotation of the endpoint, which the gate reads. */
export const HasPages = Context.Reference<boolean>("financial-agents-gateway/api/HasPages", {
  defaultValue: () => false
})

/** The media type of a page. */
export const pageMediaType = "text/html"

const page = { schema: { type: "string" } }

const vary = {
  schema: { type: "string" },
  description: "The form of the response depends on `Accept`.",
  required: true
}

/**
 * The annotations of an endpoint with pages. The OpenAPI document declares `text/html` for its success, and `Vary` for that and these
 * statuses. The schemas of the endpoint describe JSON alone, because typed clients ask for JSON.
 */
export const withPages = (...statuses: ReadonlyArray<number>): Context.Context<never> =>
  Context.add(
    OpenApi.annotations({
      transform: (operation) => {
        const { responses } = operation as OpenApi.OpenAPISpecOperation
        for (const status of [200, ...statuses, 406]) Object.assign(responses[status]!, { headers: { Vary: vary } })
        Object.assign(responses[200]!.content!, { [pageMediaType]: page })
        return operation
      }
    }),
    HasPages,
    true
  )
