/**
 * JSON bodies of HTTP responses: their content type, a reader with a size limit, and a strict parser.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** The members of a JSON object. */
export interface JsonObject {
  readonly [name: string]: unknown
}

/** Whether a JSON value is an object. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The body is too large, or it is not JSON. */
class InvalidBody extends Data.TaggedError("InvalidBody")<{
  /** For logs. Contains nothing of the body. */
  readonly reason: string
}> {}

/** Whether a `Content-Type` is JSON: `application/json`, or a type with the suffix `+json` (RFC 6839 §3.1). */
const isJsonType = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/(?:[\w!#$&^.+-]+\+)?json[ \t]*(?:;|$)/i.test(contentType)

/** Fails with `InvalidBody` unless a `Content-Type` is JSON. */
export const requireJsonType = (contentType: string | undefined): Effect.Effect<void, InvalidBody> =>
  isJsonType(contentType) ? Effect.void : Effect.fail(new InvalidBody({ reason: "the content type is not JSON" }))

const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const all = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    all.set(chunk, offset)
    offset += chunk.length
  }
  return all
}

/** Reads a body of at most `maxSize` bytes. Stops reading and fails with `InvalidBody` when the body is larger. */
export const readBody = <E>(
  body: Stream.Stream<Uint8Array, E>,
  maxSize: number
): Effect.Effect<Uint8Array, E | InvalidBody> =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    return Stream.runForEach(body, (chunk) => {
      size += chunk.length
      chunks.push(chunk)
      return size > maxSize
        ? Effect.fail(new InvalidBody({ reason: `a body of more than ${maxSize} bytes` }))
        : Effect.void
    }).pipe(Effect.map(() => concat(chunks, size)))
  })

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Parses JSON in UTF-8. Fails with `InvalidBody` on malformed UTF-8 and on malformed JSON. */
export const parseJson = (bytes: Uint8Array): Effect.Effect<unknown, InvalidBody> =>
  Effect.try({
    try: () => JSON.parse(utf8.decode(bytes)) as unknown,
    catch: () => new InvalidBody({ reason: "the body is not JSON" })
  })
