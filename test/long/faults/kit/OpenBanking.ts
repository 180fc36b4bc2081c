/** A bank of the Open Banking standard in a run: the keys of both sides, the consents of its payers, its simulator and its adapter. */
import { Duration, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import * as crypto from "node:crypto"
import { makeSigner } from "../../../../src/banks/OpenBankingMessages.ts"
import * as OpenBankingUk from "../../../../src/banks/OpenBankingUk.ts"
import { makeOpenBankingUkDialect } from "../../../../src/sandbox/banks/OpenBankingUkDialect.ts"
import { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"

/** Private RSA keys, in PEM. */
export const BankKeys = Schema.Struct({ client: Schema.String, bank: Schema.String })
export type BankKeys = typeof BankKeys.Type

const newKey = () =>
  crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
    type: "pkcs8",
    format: "pem"
  }) as string

export const newKeys = (): BankKeys => ({ client: newKey(), bank: newKey() })

/**
 * Milliseconds in which the bank takes a payment under a consent: an hour at a real bank. A payment is sent within seconds, unless the
 * run is too slow. The second is longer than all faults that hide a payment.
 */
export const times = { consentLifetime: 30_000, visibleAfter: 3000 }

export const dialectOf = ({ bank, client }: BankKeys) =>
  makeOpenBankingUkDialect({
    clientKey: crypto.createPublicKey(client),
    bankKey: crypto.createPrivateKey(bank),
    consentLifetime: times.consentLifetime
  })

const signingOf = ({ client }: BankKeys) => ({ key: Redacted.make(client), keyId: "key-1", issuer: "org-1/software-1" })

/**
 * The adapter, but for the five minutes by which it waits longer because a bank may repeat an answer that it signed. The simulator signs each
 * answer when it is read.
 */
export const adapterAt = (baseUrl: string, keys: BankKeys) =>
  Layer.effect(
    ProviderAdapter,
    Effect.map(ProviderAdapter, (adapter) => ({
      ...adapter,
      promises: { ...adapter.promises!, notFoundIsFinalAfter: Duration.millis(times.visibleAfter) }
    }))
  ).pipe(Layer.provide(OpenBankingUk.at({
    baseUrl: `${baseUrl}/open-banking/v4.0/pisp`,
    client: { tokenUrl: `${baseUrl}/token`, clientId: "client-1" },
    // The processes of a run share no store of consents, and the simulator takes any token of a payer.
    payerToken: ({ consentId, resourceOwner }) =>
      Effect.succeed(Redacted.make(`token-of-${resourceOwner}-for-${consentId}`)),
    signing: signingOf(keys),
    bank: { issuer: "sandbox-bank", keysUrl: `${baseUrl}/keys` },
    consentEnds: { refusesAfterCutOff: true, visibleAfter: times.visibleAfter }
  })))

/** What a payer consents to. A read that hides a payment would contradict `consentEnds`, so no status flaps. */
export const consentRequest = (pounds: number, staysPending: boolean) => ({
  Data: {
    Initiation: {
      InstructionIdentification: "INSTR-1",
      EndToEndIdentification: "E2E-1",
      InstructedAmount: { Amount: `${pounds}.00`, Currency: "GBP" },
      CreditorAccount: {
        SchemeName: "UK.OBIE.SortCodeAccountNumber",
        Identification: "08080021325698",
        Name: "ACME Inc"
      },
      RemittanceInformation: {
        Unstructured: [
          `sandbox ${JSON.stringify({ ...staysPending && { outcome: "pending" }, faults: { flapping_status: false } })}`
        ]
      }
    }
  },
  Risk: {}
})

const decodeConsent = Schema.decodeUnknownSync(
  Schema.Struct({ Data: Schema.Struct({ ConsentId: Schema.String }) })
)

/** Makes the function that has a consent created and authorised, as an application does, and yields the payment under it. */
export const makeConsents = Effect.fnUntraced(function*(baseUrl: string, keys: BankKeys) {
  const sign = yield* makeSigner(signingOf(keys))
  return Effect.fnUntraced(function*(key: string, request: ReturnType<typeof consentRequest>) {
    const body = JSON.stringify(request)
    const signature = yield* sign(Buffer.from(body))
    const { Data: { ConsentId } } = yield* Effect.tryPromise(async () => {
      const response = await fetch(`${baseUrl}/open-banking/v4.0/pisp/domestic-payment-consents`, {
        method: "POST",
        headers: {
          ...signature,
          authorization: "Bearer token-of-the-client",
          "content-type": "application/json",
          "x-idempotency-key": key
        },
        body,
        signal: AbortSignal.timeout(2000)
      })
      return decodeConsent(await response.json())
    }).pipe(Effect.retry(Schedule.spaced("100 millis")), Effect.orDie)
    return { ConsentId, payment: { Data: { ConsentId, ...request.Data }, Risk: request.Risk } }
  })
})
