/** A change as a webhook: its body, its headers and its signature, as the Standard Webhooks specification has them. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ClientId, PairwiseSubject } from "financial-agents-gateway/domain/Grant"
import { Operation } from "financial-agents-gateway/domain/Operation"
import type { LedgerChange } from "financial-agents-gateway/services/OperationFeed"
import { createHmac, randomBytes } from "node:crypto"

/**
 * The body: the operation in its public form, and the client and the subject that it belongs to. The name of the resource owner
 * stays inside. A receiver that needs it looks it up by client and subject.
 */
const Body = Schema.fromJsonString(Schema.Struct({
  operation: Operation,
  client_id: ClientId,
  subject: PairwiseSubject
}))

const encodeBody = Schema.encodeEffect(Body)

/** One state of an operation, ready to be sent. */
export interface Webhook {
  /** The same for each repetition until the receiver acknowledges it, or the outbox reads the state again. For nothing else. */
  readonly id: string
  readonly body: string
}

/**
 * `{operation}.{revision}`, then `.review` while people look into the operation, and a random part. An operation returns to an earlier state
 * when a review ends, because a review has no revision of its own, and when a failover loses transitions. A receiver that drops the ids that it
 * knows must not drop such a state.
 */
const idOf = ({ id, revision, under_review }: Operation): string =>
  `${id}.${revision}${under_review ? ".review" : ""}.${randomBytes(8).toString("hex")}`

/** The webhook of a change, with an id of its own. Dies if the stored operation breaks the contract. */
export const webhookOf = ({ client_id, operation, subject }: LedgerChange): Effect.Effect<Webhook> =>
  Effect.map(
    Effect.orDie(encodeBody({ operation, client_id, subject })),
    (body) => ({ id: idOf(operation), body })
  )

/** A key for HMAC-SHA256. */
export type SigningKey = Redacted.Redacted<Buffer>

const secretPattern = /^whsec_([A-Za-z0-9+/]+={0,2})$/

/** Standard Webhooks: 24 to 64 bytes. */
const keyOf = (text: string): Buffer | null => {
  const key = Buffer.from(secretPattern.exec(text)?.[1] ?? "", "base64")
  return key.length >= 24 && key.length <= 64 ? key : null
}

const isSecret = Schema.makeFilter((texts: string) => texts.split(" ").every((text) => keyOf(text) !== null), {
  expected: "whsec_ and then 24 to 64 bytes in base64, or several of these separated by spaces"
})

/** WEBHOOK_SECRET. With several secrets each delivery has a signature for each, so that a receiver can change its secret. */
export const signingKeys: Config.Config<ReadonlyArray<SigningKey>> = Config.schema(
  Schema.Redacted(Schema.String.check(isSecret)),
  "WEBHOOK_SECRET"
).pipe(
  // The filter has refused every text that is no key.
  Config.map((secrets) => Redacted.value(secrets).split(" ").map((text) => Redacted.make(keyOf(text)!)))
)

/** The headers of one attempt. `seconds` since the epoch: a receiver refuses attempts that are much older than its clock. */
export const headersOf = ({ body, id }: Webhook, seconds: number, keys: ReadonlyArray<SigningKey>) => ({
  "webhook-id": id,
  "webhook-timestamp": String(seconds),
  "webhook-signature": keys.map((key) =>
    `v1,${createHmac("sha256", Redacted.value(key)).update(`${id}.${seconds}.${body}`).digest("base64")}`
  ).join(" ")
})
