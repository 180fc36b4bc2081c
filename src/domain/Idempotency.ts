/**
 * The request binding: what makes a repeated financial request return the operation of the first one, for ever
 * (specification, "What the service does" 4).
 */
import canonicalize from "canonicalize"
import * as Bytes from "effect/Bytes"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { OperationType } from "./Operation.ts"

/** The key that a client chooses for one financial request and repeats with each retry of it. */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
).pipe(Schema.brand("IdempotencyKey"))
export type IdempotencyKey = typeof IdempotencyKey.Type

/** What a client asks for: the kind of work, the key that binds retries to it, and the payload for the provider. */
export const FinancialRequest = Schema.Struct({
  type: OperationType,
  key: IdempotencyKey,
  payload: Schema.Json
})
export type FinancialRequest = typeof FinancialRequest.Type

/**
 * The request cannot be bound: its type or key has not the form that is demanded, its payload has no canonical form (RFC
 * 8785 knows no lone surrogates and no numbers beyond IEEE 754), or it is too long or nested too deep.
 */
export class InvalidFinancialRequest extends Schema.TaggedError<InvalidFinancialRequest>()("InvalidFinancialRequest", {
  message: Schema.String,
  /** The member of the payload that is nested too deep, by the names and indices that lead to it. */
  path: Schema.optionalKey(Schema.Array(Schema.String))
}) {}

const validate = Schema.decodeUnknownEffect(
  Schema.toType(Schema.Struct(Struct.omit(FinancialRequest.fields, ["payload"])))
)

/** Fails unless type and key are well-formed. The payload is checked as it is made canonical. */
export const validateRequest = (request: FinancialRequest): Effect.Effect<void, InvalidFinancialRequest> =>
  Effect.asVoid(Effect.mapError(validate(request), ({ message }) => new InvalidFinancialRequest({ message })))

/** The key was used before for another request. The earlier operation stands; nothing was recorded for this one. */
export class BindingConflict extends Schema.TaggedError<BindingConflict>()("BindingConflict", {
  key: IdempotencyKey
}) {
  override get message() {
    return "the idempotency key was used before with another request"
  }
}

const encoder = new TextEncoder()

/**
 * The canonical JSON (RFC 8785) of a value as UTF-8 bytes: equal for equal JSON values, whatever the order of their
 * members and the spelling of their numbers.
 */
export const canonicalJson = (value: Schema.Json): Effect.Effect<Uint8Array, InvalidFinancialRequest> =>
  Effect.try({
    try: () => encoder.encode(canonicalize(value)),
    catch: (cause) => new InvalidFinancialRequest({ message: cause instanceof Error ? cause.message : "not JSON" })
  })

/** Longest payload, in bytes of its canonical JSON: 256 KiB. A worker claims many at once. */
export const maxPayloadBytes = 262_144

/** Most levels of arrays and objects in a payload. Adapters encode payloads by recursion, and PostgreSQL reads JSON so. */
export const maxPayloadLevels = 64

/**
 * The first member of a JSON value that is nested deeper than `maxPayloadLevels`, by the names and indices that lead to it;
 * null when there is none. Without recursion, so that no value is too deep for it.
 */
export const findTooDeep = (value: unknown): ReadonlyArray<string> | null => {
  // The containers that lead to the value at hand, with their members, and which of these is looked at.
  const open: Array<{ readonly members: ReadonlyArray<readonly [string, unknown]>; index: number }> = []
  let current: unknown = value
  while (true) {
    if (typeof current === "object" && current !== null) {
      if (open.length === maxPayloadLevels) return open.map(({ index, members }) => members[index]![0])
      open.push({ members: Object.entries(current), index: -1 })
    }
    while (open.length > 0 && ++open.at(-1)!.index === open.at(-1)!.members.length) open.pop()
    const container = open.at(-1)
    if (container === undefined) return null
    current = container.members[container.index]![1]
  }
}

/** The canonical JSON of a payload. Fails when it is nested too deep, or too long to be kept. */
export const canonicalPayload = (payload: Schema.Json): Effect.Effect<Uint8Array, InvalidFinancialRequest> =>
  Effect.suspend(() => {
    const path = findTooDeep(payload)
    if (path !== null) {
      const message = `the payload is nested more than ${maxPayloadLevels} levels deep`
      return Effect.fail(new InvalidFinancialRequest({ message, path }))
    }
    return Effect.filterOrFail(
      canonicalJson(payload),
      (bytes) => bytes.length <= maxPayloadBytes,
      () => new InvalidFinancialRequest({ message: `the payload is longer than ${maxPayloadBytes} bytes` })
    )
  })

/** SHA-256 over the canonical JSON of what is bound: the kind of work and its payload. */
export const requestDigest = (
  { payload, type }: Pick<FinancialRequest, "type" | "payload">
): Effect.Effect<Uint8Array, InvalidFinancialRequest, Digest.Digest> =>
  Effect.flatMap(canonicalJson(payload), (bytes) => canonicalDigest(type, bytes))

/**
 * The digest of a request whose payload is canonical JSON already, as it is stored. It is that of `{"payload":…,"type":…}`,
 * written out because a worker that parses and canonicalizes 256 KiB again holds up all others for milliseconds.
 */
export const canonicalDigest = (
  type: OperationType,
  payload: Uint8Array
): Effect.Effect<Uint8Array, never, Digest.Digest> =>
  Digest.Digest.use((digest) =>
    digest.digest(
      Digest.sha256,
      Bytes.concat([beforePayload, payload, encoder.encode(`,"type":${JSON.stringify(type)}}`)])
    )
  )

const beforePayload = encoder.encode("{\"payload\":")
