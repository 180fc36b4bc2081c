/**
 * The webhooks of the bank. Each is a hint: the gateway reads the status of the payment now, instead of by its schedule. Nothing in
 * the body counts as proof, so a stolen secret moves no payment.
 */
import * as ByteSize from "effect/ByteSize"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ProviderName } from "financial-agents-gateway/domain/Grant"
import { Reconciler } from "financial-agents-gateway/submission/SubmissionProcesses"
import { randomBytes } from "node:crypto"
import { Webhook } from "standardwebhooks"

/** Path of the endpoint. */
export const webhooksPath = "/webhooks/bank"

/** Bytes. The webhooks of the bank have a few hundred. */
const longestBody = 16_384

/** The secret of the own sandbox, for the life of the process. */
const ownSecret = Redacted.make(`whsec_${randomBytes(32).toString("base64")}`)

/** The secret that the bank signs with: BANK_WEBHOOK_SECRET. The own sandbox has one without it; a bank at BANK_URL has none. */
export const webhookSecret = Config.all({
  given: Config.option(Config.Redacted("BANK_WEBHOOK_SECRET")),
  bankUrl: Config.option(Config.String("BANK_URL"))
}).pipe(
  Config.map(({ bankUrl, given }) =>
    Option.orElse(given, () => Option.isNone(bankUrl) ? Option.some(ownSecret) : given)
  )
)

/** The member that names the payment: the bank echoes its idempotency key, which is the operation's id. */
const Notification = Schema.fromJsonString(Schema.Struct({ data: Schema.Struct({ idempotency_key: Schema.String }) }))
const decode = Schema.decodeUnknownOption(Notification)

/** Whether the bank signed the body, at most five minutes ago (Standard Webhooks). */
const isSigned = (webhook: Webhook, body: string, headers: HttpServerRequest.HttpServerRequest["headers"]): boolean => {
  try {
    webhook.verify(body, headers, { jsonParse: false })
    return true
  } catch {
    return false
  }
}

const answer = (status: 204 | 401 | 413 | 503) => HttpServerResponse.empty({ status })

/** `POST /webhooks/bank`, if there is a secret. All signed webhooks get the same answer. */
export const bankWebhooks = (bank: ProviderName) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const reconciler = yield* Reconciler
    const secret = yield* webhookSecret
    if (Option.isNone(secret)) return
    const webhook = new Webhook(Redacted.value(secret.value))

    const receive = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const body = yield* Effect.option(
        // The signature is of these bytes, so the body is not parsed before.
        Effect.provideService(request.text, HttpServerRequest.MaxBodySize, ByteSize.fromInputUnsafe(longestBody))
      )
      if (Option.isNone(body)) return answer(413)
      if (!isSigned(webhook, body.value, request.headers)) return answer(401)
      const notification = decode(body.value)
      if (Option.isSome(notification)) {
        yield* reconciler.hint(bank, { operation_id: notification.value.data.idempotency_key })
      }
      return answer(204)
    })

    yield* router.add("POST", webhooksPath, (request) =>
      Effect.catchTag(
        receive(request),
        "StoreUnavailable",
        // The bank then sends the webhook again.
        () => Effect.succeed(answer(503))
      ))
  }))
