/**
 * Content that stays the same while the process runs: compressed once, with an entity tag, by which a cache asks again at no cost.
 */
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import * as zlib from "node:zlib"
import { type ContentCoding, matchesTag, preferredCoding, type RequestHeaders } from "./gate/RequestChecks.ts"

/** What is served. The headers are those of every form. */
export interface StaticContent {
  readonly contentType: string
  readonly bytes: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

/** Compresses outside of the event loop. Higher qualities take several times as long, and save a few percent. */
const compress: Readonly<Record<ContentCoding, (bytes: Uint8Array) => Promise<Uint8Array>>> = {
  br: (bytes) =>
    promisify(zlib.brotliCompress)(bytes, {
      params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 6, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.byteLength }
    }),
  gzip: (bytes) => promisify(zlib.gzip)(bytes),
  identity: (bytes) => Promise.resolve(bytes)
}

/** The responses of one form. Each form has a tag of its own, because a strong tag names bytes (RFC 9110 §8.8.3). */
const makeForm = async ({ bytes, contentType, headers = {} }: StaticContent, coding: ContentCoding) => {
  const body = await compress[coding](bytes)
  const etag = `"${createHash("sha256").update(body).digest("base64url")}"`
  const ofForm = { ...headers, etag, vary: "accept-encoding" }
  return {
    etag,
    whole: HttpServerResponse.uint8Array(body, {
      contentType,
      headers: coding === "identity" ? ofForm : { ...ofForm, "content-encoding": coding }
    }),
    unchanged: HttpServerResponse.empty({ status: 304, headers: ofForm })
  }
}

/** Answers a request: with the form that it prefers, or with 304 if it names the tag of that form. */
export type AnswerStatic = (headers: RequestHeaders) => HttpServerResponse.HttpServerResponse

const makeAnswer = async (content: StaticContent): Promise<AnswerStatic> => {
  const [br, gzip, identity] = await Promise.all([
    makeForm(content, "br"),
    makeForm(content, "gzip"),
    makeForm(content, "identity")
  ])
  const forms = { br, gzip, identity }
  return (headers) => {
    const { etag, unchanged, whole } = forms[preferredCoding(headers)]
    const tags = headers["if-none-match"]
    return tags !== undefined && matchesTag(tags, etag) ? unchanged : whole
  }
}

/** Content that the first request makes and compresses. Later requests, and those of that time, share it. */
export const makeStatic = <R>(content: Effect.Effect<StaticContent, never, R>) =>
  Effect.cached(Effect.flatMap(content, (made) => Effect.promise(() => makeAnswer(made))))
