import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { parseBaseUrl } from "../../http/OutgoingRequest.ts"

/** The URL at which clients reach the gateway, without a trailing slash. Problem types are URLs below it. */
export class BaseUrl extends Context.Service<BaseUrl, string>()("financial-agents-gateway/server/gate/BaseUrl") {
  /** Dies on an invalid base URL: a gateway with a wrong base URL must not start. */
  static readonly layer = (url: string): Layer.Layer<BaseUrl> => Layer.sync(BaseUrl, () => normalizeBaseUrl(url))
}

/** Removes trailing slashes. Throws unless the text is an absolute http or https URL without query, fragment and user. @internal */
export const normalizeBaseUrl = (text: string): string => {
  const url = parseBaseUrl(text)
  if (url !== null) return url
  throw new Error(
    `the base URL (BASE_URL, --base-url, or the option baseUrl) must be a plain http or https URL, such as https://gateway.example: ${text}`
  )
}
