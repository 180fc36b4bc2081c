/** Checks of the headers of a request, as functions of the headers alone. */
import Negotiator from "negotiator"

/** Headers by their lower-case names. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** Whether there is a body. A body of length 0 counts as none. */
export const hasBody = (headers: RequestHeaders): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0

/** Whether a body is JSON. Without `Content-Type` it counts as that: clients that name no type send JSON, too. */
export const isJson = (headers: RequestHeaders): boolean =>
  /^\s*application\/json\s*(?:;|$)/i.test(headers["content-type"] ?? "application/json")

/** Whether `Content-Type` names a charset other than UTF-8, which JSON is always in (RFC 8259 §8.1). */
export const namesOtherCharset = (headers: RequestHeaders): boolean =>
  /;\s*charset\s*=(?!\s*(?:utf-?8|"utf-?8")\s*(?:;|$))/i.test(headers["content-type"] ?? "")

/** The media type of a body, without its parameters. Without `Content-Type` it counts as JSON, as in Effect. */
export const mediaTypeOf = (headers: RequestHeaders): string => {
  const type = headers["content-type"] ?? "application/json"
  const end = type.indexOf(";")
  return (end === -1 ? type : type.slice(0, end)).trim().toLowerCase()
}

/** A host with or without a port (RFC 9110 §7.2), or no value. Several arrive joined by commas. */
const hostForm = /^(?:\[[\w:.~%-]+\]|[\w.~!$&'()*+;=%-]*)(?::\d*)?$/

/** Whether the one Host that HTTP/1.1 requires is missing, or has no valid value (RFC 9112 §3.2). */
export const lacksHost = ({ host }: RequestHeaders): boolean => host === undefined || !hostForm.test(host)

/** JSON is always in UTF-8 (RFC 8259 §8.1), and some clients name the charset in `Accept`. */
const offered = ["application/json", "application/json;charset=utf-8"]

/** A list without elements (RFC 9110 §5.6.1). It counts as absent. */
const emptyList = /^[\s,]*$/

/** Whether the client takes every form, or names JSON alone. */
const asksForJson = (headers: RequestHeaders): boolean => {
  const accept = headers["accept"]
  return accept === undefined || accept === "*/*" || accept === "application/json" || emptyList.test(accept)
}

/** The forms of an answer that is a page for browsers, too. JSON comes first: it is for clients that take both alike. */
const offeredAsPage = [...offered, "text/html", "text/html;charset=utf-8"]

/** Longest header that is negotiated, in characters: the negotiator's cost grows with the square of the length. */
const maxNegotiated = 1024

/**
 * The media type that the client prefers; undefined if it takes none of them. A longer header counts as absent, as RFC 9110 §12.5.1
 * permits: the first type is for clients that take every form.
 */
export const preferredType = (accept: string, types: ReadonlyArray<string>): string | undefined =>
  accept.length <= maxNegotiated ? new Negotiator({ headers: { accept } }).mediaType([...types]) : types[0]

/** Whether a response in JSON meets the request's `Accept`. */
export const acceptsJson = (headers: RequestHeaders): boolean =>
  asksForJson(headers) || preferredType(headers["accept"]!, offered) !== undefined

/**
 * The form in which an endpoint with pages answers: JSON, unless the request's `Accept` prefers HTML. Null if it takes neither.
 * Of two forms that it takes alike, the one that it names more exactly wins, then the one that it names first.
 */
export const preferredForm = (headers: RequestHeaders): "json" | "page" | null => {
  if (asksForJson(headers)) return "json"
  const type = preferredType(headers["accept"]!, offeredAsPage)
  return type === undefined ? null : type.startsWith("text/html") ? "page" : "json"
}

/** The forms of `/`. Text comes first: it is for clients that take every form, such as curl. */
const offeredAtFront = ["text/plain", "text/plain;charset=utf-8", "text/html", "text/html;charset=utf-8", ...offered]

/** The form of `/` that the request prefers: a page for browsers, or text. Null if it prefers JSON, or takes neither. */
export const frontForm = ({ accept = "*/*" }: RequestHeaders): "page" | "text" | null => {
  const type = preferredType(emptyList.test(accept) ? "*/*" : accept, offeredAtFront) ?? ""
  return type.startsWith("text/html") ? "page" : type.startsWith("text/plain") ? "text" : null
}

const codings = ["br", "gzip", "identity"] as const

/** A content coding of static content. */
export type ContentCoding = (typeof codings)[number]

/** The negotiator's own types lack the order among codings that the client takes alike. */
interface EncodingNegotiator {
  readonly encodings: (
    available: ReadonlyArray<string>,
    options: { readonly preferred: ReadonlyArray<string> }
  ) => ReadonlyArray<string>
}

/** The coding that the client prefers (RFC 9110 §12.5.3). A client that takes none of them gets the content as it is. */
export const preferredCoding = (headers: RequestHeaders): ContentCoding => {
  const accepted = headers["accept-encoding"] ?? ""
  if (accepted.length > maxNegotiated) return "identity"
  const negotiator: EncodingNegotiator = new Negotiator({ headers: { "accept-encoding": accepted } })
  const [coding = "identity"] = negotiator.encodings(codings, { preferred: codings })
  return coding as ContentCoding
}

/** Whether `If-None-Match` names the tag: alone, in a list, as a weak tag, or as `*` (RFC 9110 §13.1.2). */
export const matchesTag = (ifNoneMatch: string, tag: string): boolean =>
  ifNoneMatch.trim() === "*" || ifNoneMatch.matchAll(/"[^"]*"/g).some(([candidate]) => candidate === tag)

/** Scheme and token (RFC 9110 §11.4). */
const authorizationPattern = /^(bearer|dpop) +([^ ].*)$/i

interface ReadAuthorization {
  readonly scheme: "Bearer" | "DPoP"
  readonly token: string
}

/** Reads the `Authorization` header; null if it has no token of these schemes. */
export const readAuthorization = (headers: RequestHeaders): ReadAuthorization | null => {
  const [, scheme, token] = authorizationPattern.exec(headers["authorization"] ?? "") ?? []
  if (scheme === undefined || token === undefined) return null
  return { scheme: scheme.toLowerCase() === "dpop" ? "DPoP" : "Bearer", token }
}
