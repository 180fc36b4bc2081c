/**
 * The adapter for banks of the Open Banking standard (United Kingdom, Read/Write API 4.0): domestic payments under a consent that the payer
 * has authorised. `docs/banks.md` has the table of states, and what happens after a lost answer.
 *
 * The operation's id is the `x-idempotency-key`, which the bank knows for 24 hours, and the `x-fapi-interaction-id`, which each answer
 * repeats. The bank has no read by either. So after a lost answer the adapter reads the consent: `COND` says that a payment was ordered
 * under it, and any other status that none was so far. Names of members are those of the standard.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ResourceOwner } from "../domain/Grant.ts"
import type { Terms } from "../domain/Terms.ts"
import * as ProviderHttpClient from "../node/http/ProviderHttpClient.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import type { ProviderAdapter, ProviderOperation } from "../submission/providers/ProviderAdapter.ts"
import { makeClientToken } from "./ClientCredentials.ts"
import { type ConsentEnds, failures, read, refused, submitted, wrongEndpoint } from "./OpenBankingAnswers.ts"
import { type BankKeys, makeSigner, makeVerifier, signedBy, type SigningOptions } from "./OpenBankingSignature.ts"
import { requireCertificate, type TransportOptions } from "./startChecks.ts"

export { type EventOptions, type EventReceiver, InvalidEvent, makeEventReceiver } from "./OpenBankingEvents.ts"
export type { BankKeys, ConsentEnds, SigningOptions, TransportOptions }

const text = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))

const Amount = Schema.String.check(
  Schema.isPattern(/^(?!0+(?:\.0+)?$)(?:0|[1-9][0-9]{0,12})(?:\.[0-9]{1,5})?$/u, {
    expected: "an amount above zero, such as \"12.50\""
  })
)

const account = {
  SchemeName: text(40),
  Identification: text(256),
  SecondaryIdentification: Schema.optionalKey(text(34))
}

/** A part of the consent that the bank alone reads. */
const Part = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))

/** The payload of a `domestic_payment`. `Initiation` and `Risk` are those of the consent, or the bank refuses the payment. */
export const DomesticPayment = Schema.Struct({
  Data: Schema.Struct({
    ConsentId: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,128}$/u, { expected: "the id of a consent" })),
    Initiation: Schema.Struct({
      InstructionIdentification: text(35),
      EndToEndIdentification: text(35),
      LocalInstrument: Schema.optionalKey(text(50)),
      InstructedAmount: Schema.Struct({
        Amount,
        Currency: Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/u, { expected: "a currency such as GBP" }))
      }),
      DebtorAccount: Schema.optionalKey(
        Schema.Struct({ ...account, Name: Schema.optionalKey(text(350)), Proxy: Part })
      ),
      CreditorAgent: Part,
      CreditorAccount: Schema.Struct({ ...account, Name: text(350), Proxy: Part }),
      CreditorPostalAddress: Part,
      UltimateCreditor: Part,
      UltimateDebtor: Part,
      RegulatoryReporting: Schema.optionalKey(Schema.Array(Schema.Json)),
      RemittanceInformation: Part,
      SupplementaryData: Part
    })
  }),
  Risk: Schema.Record(Schema.String, Schema.Json)
})
export type DomesticPayment = typeof DomesticPayment.Type

/** What the bank can carry out, by type of operation. */
export const payloads = { domestic_payment: DomesticPayment }

/** The terms of a `domestic_payment`, for its endpoint. */
export const domesticPaymentTerms = ({ Data: { Initiation } }: DomesticPayment): Terms => ({
  amount: Initiation.InstructedAmount.Amount,
  currency: Initiation.InstructedAmount.Currency,
  payee: `${Initiation.CreditorAccount.SchemeName} ${Initiation.CreditorAccount.Identification}`
})

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
  /** The gateway as a client of the bank: where it gets its own tokens, for reads. */
  readonly client: { readonly tokenUrl: string; readonly clientId: string }
  /**
   * Finds the payer's access token for a consent: that of the authorization code with which the payer authorised it. Look it up by consent
   * **and** resource owner, and fail if that owner has not authorised that consent. The consent's id is text of the client: nothing else
   * keeps an agent of one owner from paying under the consent of another. If it fails, nothing is sent, and the operation waits.
   */
  readonly payerToken: (payment: PayerTokenQuery) => Effect.Effect<Redacted.Redacted<string>, unknown>
  readonly signing: SigningOptions
  readonly bank: BankKeys
  /** Default: the bank documents nothing, and an unused consent never proves that nothing was ordered. */
  readonly consentEnds?: ConsentEnds
}

const bearer = (token: Redacted.Redacted<string>) => ({
  authorization: Redacted.make(`Bearer ${Redacted.value(token)}`)
})

/** The adapter over a client that authenticates by mutual TLS. Dies with a `TypeError` if an option cannot be right. See `layer`. */
export const at = (options: OpenBankingUkOptions): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.gen(function*() {
    const { bank, client, consentEnds, payerToken, signing, ...http } = options
    const baseUrl = yield* Effect.sync(() => HttpProvider.requireAddress("baseUrl", options.baseUrl))
    const tokenUrl = yield* Effect.sync(() => HttpProvider.requireAddress("client.tokenUrl", client.tokenUrl))
    yield* Effect.sync(() => HttpProvider.requireSecret("client.clientId", Redacted.make(client.clientId)))
    const sign = yield* makeSigner(signing)
    const verifier = yield* makeVerifier(bank)
    const signed = signedBy(verifier)
    const clientToken = yield* makeClientToken({ tokenUrl, clientId: client.clientId, scope: "payments" })
    const tokenOf = (operation: ProviderOperation, { Data: { ConsentId } }: DomesticPayment) =>
      payerToken({ consentId: ConsentId, resourceOwner: operation.resource_owner, operation })
    const headers = ({ id }: ProviderOperation) => ({ "x-fapi-interaction-id": id })
    return HttpProvider.layer({
      ...http,
      baseUrl,
      payloads,
      failures,
      idempotencyKeyHeader: "x-idempotency-key",
      promises: {
        keys: "24 hours",
        readByOperationId: "indirectly",
        ...consentEnds === undefined
          ? {}
          : { lateRequests: "refused_as_stated", notFoundIsFinalAfter: consentEnds.visibleAfter }
      },
      credentials: (operation, payload) =>
        Effect.map(
          payload === null ? clientToken : Effect.andThen(verifier.ready, tokenOf(operation, payload)),
          bearer
        ),
      credentialsOf: "operation",
      submit: {
        request: (operation, payload) => ({ path: "/domestic-payments", headers: headers(operation), body: payload }),
        sign,
        decode: (answer, { payload }) =>
          HttpProvider.byStatus({
            201: signed(submitted(payload.Data.ConsentId)),
            400: signed(refused),
            // These have no body, and no signature.
            401: HttpProvider.wrongCredentials,
            403: signed(refused),
            405: wrongEndpoint,
            415: wrongEndpoint,
            429: HttpProvider.refusedForNow
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
            200: signed(read(payload!.Data.ConsentId, consentEnds)),
            401: HttpProvider.wrongCredentials,
            403: HttpProvider.wrongCredentials,
            429: HttpProvider.refusedForNow
          })(answer)
      }
    })
  }))

/** The adapter with its own client, which authenticates by mutual TLS. Dies with a `TypeError` if an option cannot be right. */
export const layer = (
  options: OpenBankingUkOptions & { readonly tls: TransportOptions }
): Layer.Layer<ProviderAdapter> =>
  Layer.unwrap(Effect.map(Clock.currentTimeMillis, (now) => {
    requireCertificate("tls", options.tls, now)
    return Layer.provide(at(options), ProviderHttpClient.layer({ tls: options.tls }))
  }))
