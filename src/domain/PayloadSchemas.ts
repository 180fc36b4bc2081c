/**
 * The payloads that a provider can carry out, as schemas by type of operation, and the members of a payload that do not
 * fit.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { type InvalidMember, invalidMembers, strict } from "./InvalidMember.ts"

/**
 * Schemas of payloads by type of operation, such as `{ payment: Payment }`. Each decodes the JSON of an accepted request,
 * without waiting: the ledger asks the schemas of all providers, and one that waits would delay the others.
 *
 * The message of a check that fails is part of the answer to the client, and is logged: it must not quote the value.
 */
export type PayloadSchemas = Readonly<Record<string, Schema.ConstraintDecoder<unknown>>>

/** The message for a member that the schema does not declare. The client chose its name. */
export const undeclaredMember = "Expected only members that the provider takes"

/** Omits the message of a transformation, such as `JSON.parse`, because it may quote the value. */
const messageOf: SchemaIssue.LeafHook = (issue) => {
  if (issue._tag === "UnexpectedKey") return undeclaredMember
  if (issue._tag !== "InvalidValue") return SchemaIssue.defaultLeafHook(issue)
  const expected = issue.annotations?.["expected"]
  return typeof expected === "string" ? `Expected ${expected}` : "Expected a valid value"
}

/** Decodes a payload of one type. Fails with the members that do not fit: at least one, and 32 at most. */
export type DecodePayload = (payload: unknown) => Effect.Effect<unknown, ReadonlyArray<InvalidMember>>

/**
 * Returns the decoders of the declared types. A payload with members that its schema does not declare does not fit:
 * the provider would not receive them.
 */
export const payloadDecoders = (schemas: PayloadSchemas): ReadonlyMap<string, DecodePayload> =>
  new Map(
    Object.entries(schemas).map(([type, schema]) => {
      const decode = Schema.decodeUnknownExit(schema, strict)
      return [type, (payload) =>
        Effect.mapError(Effect.suspend(() => decode(payload)), (error) => invalidMembers(error, messageOf))]
    })
  )
