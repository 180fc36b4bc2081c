/**
 * For development: issues a grant at each start with the fake bank, and prints how to use it. Your production verifies its own sessions, or the
 * tokens of your authorization server.
 */
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import {
  ClientId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import { BaseUrl } from "financial-agents-gateway/server/Gateway"
import { Grants } from "financial-agents-gateway/services/Grants"
import { transfersWrite } from "./Api.ts"
import { bankName } from "./Bank.ts"
import { bankSettings } from "./Providers.ts"
import { exampleTransfer } from "./Transfer.ts"

/** A grant of Alice, who allows her agent to transfer from her account at the bank. */
export const issueGrant = Effect.flatMap(Grants, (grants) =>
  grants.issue({
    resource_owner: ResourceOwner.make("alice"),
    subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
    client_id: ClientId.make("alices-agent"),
    provider: ProviderName.make(bankName),
    scopes: [operationsRead, transfersWrite],
    expires_in: Duration.days(1)
  }))

const text = (url: string, token: string) => `
Application: ${url}   Documentation: ${url}/docs

Paste into a second terminal. The same key names one transfer, however often you repeat the request:

  export TOKEN=${token}

  curl ${url}/v1/transfers -H "Authorization: Bearer $TOKEN" -H 'Idempotency-Key: rent-of-may' \\
    -H 'Content-Type: application/json' -d '${JSON.stringify(exampleTransfer)}'
  curl ${url}/v1/operations -H "Authorization: Bearer $TOKEN"
`

/** Prints a token and commands beside the fake bank alone: with another bank the token may pay real money. */
export const Invitation = Layer.effectDiscard(Effect.gen(function*() {
  const { fake } = yield* bankSettings
  if (fake === null) return
  const { access_token } = yield* issueGrant
  yield* Console.log(text(yield* BaseUrl, Redacted.value(access_token)) + fake.text)
}))
