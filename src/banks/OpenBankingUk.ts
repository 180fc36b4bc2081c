/**
 * The adapter for banks of the Open Banking standard (United Kingdom, Read/Write API 4.0): domestic payments under a consent that the payer
 * has authorised. `docs/banks.md` has the table of states, and what happens after a lost answer.
 *
 * The operation's id is the `x-idempotency-key`, which the bank knows for 24 hours, and the `x-fapi-interaction-id`, which each answer
 * repeats. The bank has no read by either. So after a lost answer the adapter reads the consent: `COND` says that a payment was ordered
 * under it, and any other status that none was so far. Names of members are those of the standard.
 */
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ResourceOwner } from "../domain/Grant.ts"
import { textLike } from "../domain/PayloadText.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import type { ProviderAdapter, ProviderOperation } from "../submission/providers/ProviderAdapter.ts"
import { CreditTransfer, creditTransferTerms, type SettledStatus } from "./iso20022.ts"
import * as Messages from "./OpenBankingMessages.ts"
import { type ConsentEnds, consentPromises } from "./paymentConsent.ts"
import { type BankClient, layerWithCertificate, makeBankToken, type TransportOptions } from "./startChecks.ts"

export { type EventReceiver, InvalidEvent } from "../oauth/SecurityEvents.ts"
export { type EventOptions, makeEventReceiver, type SigningOptions } from "./OpenBankingMessages.ts"
export type { TransportOptions }

/** The payload of a `domestic_payment`. `Initiation` and `Risk` are those of the consent, or the bank refuses the payment. */
export const DomesticPayment = Schema.Struct({
  Data: Schema.Struct({
    ConsentId: textLike(/^[\x21-\x7e]{1,128}$/u, "the id of a consent"),
    Initiation: CreditTransfer
  }),
  Risk: Schema.Record(Schema.String, Schema.Json)
})
export type DomesticPayment = typeof DomesticPayment.Type

/** What the bank can carry out, by type of operation. */
export const payloads = { domestic_payment: DomesticPayment }

/** The terms of a `domestic_payment`, for its endpoint. */
export const domesticPaymentTerms = ({ Data }: DomesticPayment) => creditTransferTerms(Data.Initiation)

/** The payment for which `payerToken` finds a token. */
export interface PayerTokenQuery {
  /** As the client gave it. */
  readonly consentId: string
  /** The owner of the operation, by its grant. Only this owner's consents count. */
  readonly resourceOwner: ResourceOwner
  readonly operation: ProviderOperation
}

/** The settings of the adapter. */
export interface OpenBankingUkOptions extends Pick<HttpProvider.HttpProviderOptions, "deadlines" | "limit"> {
  /** The bank's address with the version: `https://api.bank.example/open-banking/v4.0/pisp`. */
  readonly baseUrl: string
  /** Reads take the gateway's own token. */
  readonly client: BankClient
  /**
   * Finds the payer's access token for a consent: that of the authorization code with which the payer authorised it. Look it up by consent
   * **and** resource owner, and fail if that owner has not authorised that consent. The consent's id is text of the client: nothing else
   * keeps an agent of one owner from paying under the consent of another. If it fails, nothing is sent, and the operation waits.
   */
  readonly payerToken: (payment: PayerTokenQuery) => Effect.Effect<Redacted.Redacted<string>, unknown>
  readonly signing: Messages.SigningOptions
  readonly bank: Messages.BankKeys
  /** What `succeeded` says. Default: `ACSC`, the debtor is debited. `ACCC`: the creditor is credited, which many banks never report. */
  readonly succeedsAt?: SettledStatus
  /** Default: the bank documents nothing, and an unused consent never proves that nothing was ordered. */
  readonly consentEnds?: ConsentEnds
}

/** These answers have no body, and no signature. 405 and 415 have none either. */
const unsigned = { 401: HttpProvider.wrongCredentials, 429: HttpProvider.refusedForNow }
/** The bank documents these without saying what it did. */
const undecided = { 406: HttpProvider.undecided, 409: HttpProvider.undecided, 500: HttpProvider.undecided }

/** The adapter over a client that authenticates by mutual TLS. Dies with a `TypeError` if an option cannot be right. See `layer`. */
export const at = (options: OpenBankingUkOptions): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.gen(function*() {
    const { bank, client, consentEnds, payerToken, signing, succeedsAt = "ACSC", ...http } = options
    if (succeedsAt !== "ACSC" && succeedsAt !== "ACCC") throw new TypeError("succeedsAt must be ACSC or ACCC")
    const sign = yield* Messages.makeSigner(signing)
    const { ready, signed } = yield* Messages.makeVerifier(bank)
    const clientToken = yield* makeBankToken(client, "payments")
    const tokenOf = (operation: ProviderOperation, { Data: { ConsentId } }: DomesticPayment) =>
      payerToken({ consentId: ConsentId, resourceOwner: operation.resource_owner, operation })
    const headers = ({ id }: ProviderOperation) => ({ "x-fapi-interaction-id": id })
    return HttpProvider.layer({
      ...http,
      baseUrl: HttpProvider.requireAddress("baseUrl", options.baseUrl),
      payloads,
      failures: Messages.failures,
      idempotencyKeyHeader: "x-idempotency-key",
      promises: { keys: "24 hours", ...consentPromises(consentEnds) },
      credentials: (operation, payload) =>
        Effect.map(
          payload === null ? clientToken : Effect.andThen(ready, tokenOf(operation, payload)),
          HttpProvider.bearer
        ),
      credentialsOf: "operation",
      submit: {
        request: (operation, payload) => ({ path: "/domestic-payments", headers: headers(operation), body: payload }),
        sign,
        decode: (answer, { payload }) =>
          HttpProvider.byStatus({
            ...unsigned,
            ...undecided,
            201: signed(Messages.submitted(payload.Data.ConsentId, succeedsAt)),
            400: signed(Messages.refused),
            403: signed(Messages.refused),
            405: HttpProvider.wrongEndpoint,
            415: HttpProvider.wrongEndpoint
          })(answer)
      },
      status: {
        // A read by the bank's reference compares the consent as well.
        needsPayload: true,
        request: (operation, reference, payload) => ({
          path: reference === null
            ? `/domestic-payment-consents/${encodeURIComponent(payload!.Data.ConsentId)}`
            : `/domestic-payments/${encodeURIComponent(reference)}`,
          headers: headers(operation)
        }),
        decode: (answer, { payload }) =>
          HttpProvider.byStatus({
            ...unsigned,
            200: signed(Messages.read(payload!.Data.ConsentId, succeedsAt, consentEnds)),
            403: HttpProvider.wrongCredentials
          })(answer)
      }
    })
  }))

/** The adapter with its own client, which authenticates by mutual TLS. Dies with a `TypeError` if an option cannot be right. */
export const layer = (options: OpenBankingUkOptions & { readonly tls: TransportOptions }) =>
  layerWithCertificate(options.tls, at(options))
