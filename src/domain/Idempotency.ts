/**
 * The request binding: a repeated financial request returns the operation of the first one, for ever (specification, "What the
 * service does" 4).
 */
import canonicalize from "canonicalize"
import * as Bytes from "effect/Bytes"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { ClientId, PairwiseSubject } from "./Grant.ts"
import { InvalidMember } from "./InvalidMember.ts"
import { OperationType } from "./Operation.ts"
import { payloadDecoders } from "./PayloadSchemas.ts"
import { Terms } from "./Terms.ts"

/** The key that a client chooses for one financial request and repeats with each retry of it. */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
).pipe(Schema.brand("IdempotencyKey"))
export type IdempotencyKey = typeof IdempotencyKey.Type

/** A request of a client: the kind of work, the key that binds retries to it, and the payload for the provider. */
export const FinancialRequest = Schema.Struct({
  type: OperationType,
  key: IdempotencyKey,
  payload: Schema.Json,
  /** Amount, currency and payee of the payload, for operators. They follow from the payload, so the request binding covers them. */
  terms: Schema.optionalKey(Terms)
})
export type FinancialRequest = typeof FinancialRequest.Type

/** What names an operation for ever: the client and the subject that requested it, and the key of the request. */
export interface RequestBinding {
  readonly client_id: ClientId
  readonly subject: PairwiseSubject
  readonly key: IdempotencyKey
}

/**
 * The request cannot be accepted:
 *
 * - Its type or key is malformed.
 * - Its terms are: the amount may have more digits than the currency.
 * - Its payload has no canonical form: RFC 8785 allows no lone surrogates and no numbers beyond IEEE 754.
 * - Its payload is too long, or nested too deep.
 * - The provider of the grant cannot carry it out (`ProviderPayloads`).
 */
export class InvalidFinancialRequest extends Schema.TaggedError<InvalidFinancialRequest>()("InvalidFinancialRequest", {
  message: Schema.String,
  /** The members of the payload that do not fit, if some are at fault: 32 at most. They never quote a value. */
  fields: Schema.optionalKey(Schema.Array(InvalidMember))
}) {}

const validate = Schema.decodeUnknownEffect(
  Schema.toType(Schema.Struct(Struct.omit(FinancialRequest.fields, ["payload", "terms"])))
)

/** Fails unless type and key are well-formed. `canonicalPayload` checks the payload. @internal */
export const validateRequest = (request: FinancialRequest): Effect.Effect<void, InvalidFinancialRequest> =>
  Effect.asVoid(Effect.mapError(validate(request), ({ message }) => new InvalidFinancialRequest({ message })))

const decodeTerms = payloadDecoders({ terms: Terms }).get("terms")!

/**
 * Fails unless the terms are valid. The members of the terms have other names than those of the payload, and no message quotes a value.
 *
 * @internal
 */
export const validateTerms = (terms: Terms): Effect.Effect<unknown, InvalidFinancialRequest> =>
  Effect.mapError(
    decodeTerms(terms),
    (members) => new InvalidFinancialRequest({ message: members.map(({ message }) => message).join("; ") })
  )

/**
 * The key was used before for another request, or through another provider connection. The earlier operation stays, and this
 * request is not recorded.
 */
export class BindingConflict extends Schema.TaggedError<BindingConflict>()("BindingConflict", {
  key: IdempotencyKey
}) {
  override get message() {
    return "the idempotency key was used before with another request, or through another provider connection"
  }
}

const encoder = new TextEncoder()

/**
 * The canonical JSON (RFC 8785) of a value as UTF-8 bytes. Equal JSON values give equal bytes: the order of members and the
 * spelling of numbers do not matter.
 *
 * @internal
 */
export const canonicalJson = (value: Schema.Json): Effect.Effect<Uint8Array, InvalidFinancialRequest> =>
  Effect.try({
    try: () => encoder.encode(canonicalize(value)),
    catch: (cause) => new InvalidFinancialRequest({ message: cause instanceof Error ? cause.message : "not JSON" })
  })

/** Longest payload, in bytes of its canonical JSON: 256 KiB. A worker claims many at once. */
const maxPayloadBytes = 262_144

/** Most levels of arrays and objects in a payload. Adapters and PostgreSQL process JSON by recursion. @internal */
export const maxPayloadLevels = 64

const expectedLevels = `Expected at most ${maxPayloadLevels} levels of arrays and objects`

/**
 * The path (names and indices) of the first member that is nested deeper than `maxPayloadLevels`. Null if there is none. It does
 * not recurse, so no value is too deep for it.
 *
 * @internal
 */
export const findTooDeep = (value: unknown): ReadonlyArray<string> | null => {
  // The containers around the current value, with their members and the index of the current one.
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

/** The canonical JSON of a payload. Fails if it is nested too deep or too long. @internal */
export const canonicalPayload = (payload: Schema.Json): Effect.Effect<Uint8Array, InvalidFinancialRequest> =>
  Effect.suspend(() => {
    const path = findTooDeep(payload)
    if (path !== null) {
      const message = `the payload is nested more than ${maxPayloadLevels} levels deep`
      return Effect.fail(new InvalidFinancialRequest({ message, fields: [{ path, message: expectedLevels }] }))
    }
    return Effect.filterOrFail(
      canonicalJson(payload),
      (bytes) => bytes.length <= maxPayloadBytes,
      () => new InvalidFinancialRequest({ message: `the payload is longer than ${maxPayloadBytes} bytes` })
    )
  })

/** SHA-256 over the canonical JSON of the kind of work and the payload: what the key is bound to. @internal */
export const requestDigest = (
  { payload, type }: Pick<FinancialRequest, "type" | "payload">
): Effect.Effect<Uint8Array, InvalidFinancialRequest, Digest.Digest> =>
  Effect.flatMap(canonicalJson(payload), (bytes) => canonicalDigest(type, bytes))

/**
 * The digest of a request whose payload is canonical JSON already, as stored: that of `{"payload":…,"type":…}`. It concatenates
 * bytes, because to parse and canonicalize 256 KiB again would block a worker for milliseconds.
 *
 * @internal
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
