/**
 * Something to look at: a grant, and operations in every state that it owns.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import { IdempotencyKey } from "../domain/Binding.ts"
import { ClientId, operationsRead, PairwiseSubject, Provider, ResourceOwner } from "../domain/Grant.ts"
import type { OperationId, Outcome } from "../domain/Operation.ts"
import { Grants } from "../services/Grants.ts"
import { OperationLedger } from "../services/OperationLedger.ts"

type Step = readonly [to: Outcome, evidence?: Schema.Json]

const submitting: Step = [{ state: "submitting" }]
const submitted: Step = [{ state: "submitted" }, { reference: "demo-provider-17" }]
const indeterminate: Step = [{ state: "indeterminate" }, {
  cause: "the connection was reset after the request was sent"
}]
const succeeded: Step = [{ state: "succeeded" }, { settled: true }]
const failed: Step = [{
  state: "failed",
  failure: { code: "insufficient_funds", message: "The account does not cover the amount." }
}, { provider_code: "E-51" }]
const cancelled: Step = [{ state: "cancelled" }]

/** What is asked for, and what becomes of it. */
const stories: ReadonlyArray<readonly [type: string, payload: Schema.Json, steps: ReadonlyArray<Step>]> = [
  ["payment", { amount: "120.00", currency: "EUR", to: "Stadtwerke" }, [submitting, submitted, succeeded]],
  ["payment", { amount: "18.50", currency: "EUR", to: "Corner Shop" }, [submitting, succeeded]],
  ["payment", { amount: "99000.00", currency: "EUR", to: "Boat Yard" }, [submitting, failed]],
  ["payment.refund", { amount: "18.50", currency: "EUR", of: "Corner Shop" }, [
    submitting,
    submitted,
    indeterminate,
    succeeded
  ]],
  ["transfer", { amount: "400.00", currency: "EUR", to: "Savings" }, [submitting, submitted]],
  ["transfer", { amount: "750.00", currency: "EUR", to: "Landlord" }, [submitting, indeterminate]],
  ["transfer", { amount: "60.00", currency: "EUR", to: "Club" }, [submitting, indeterminate, submitted]],
  ["transfer", { amount: "5.00", currency: "EUR", to: "Friend" }, [cancelled]],
  ["investment.order", { side: "buy", symbol: "ACME", quantity: 3 }, [submitting, submitted, failed]],
  ["investment.order", { side: "sell", symbol: "ACME", quantity: 1 }, [submitting]],
  ["investment.order", { side: "buy", symbol: "WRLD", quantity: 10 }, []],
  ["payment", { amount: "42.00", currency: "EUR", to: "Library" }, []]
]

export interface Demo {
  readonly grantId: string
  readonly accessToken: Redacted.Redacted<string>
  /** An operation that is worth a look. */
  readonly operationId: OperationId
}

/** Fills an empty ledger. Yields null, and changes nothing, when there is an operation already. */
export const fillWithDemo: Effect.Effect<Demo | null, never, Grants | OperationLedger> = Effect.gen(function*() {
  const grants = yield* Grants
  const ledger = yield* OperationLedger
  if (!(yield* ledger.isEmpty)) return null
  const { access_token, grant } = yield* grants.issue({
    resource_owner: ResourceOwner.make("demo-owner"),
    subject: PairwiseSubject.make("demo-subject"),
    client_id: ClientId.make("demo-agent"),
    provider: Provider.make("demo-bank"),
    scopes: [operationsRead],
    expires_in: Duration.days(30)
  })
  const identity = grant
  let uncertain: OperationId | undefined
  for (const [index, [type, payload, steps]] of stories.entries()) {
    const request = { type, key: IdempotencyKey.make(`demo-${index + 1}`), payload }
    let { operation } = yield* ledger.accept(identity, request)
    for (const [to, evidence = null] of steps) {
      operation = yield* ledger.transition(operation.id, operation.revision, to, evidence)
    }
    if (operation.state === "indeterminate") uncertain = operation.id
  }
  return { grantId: grant.grant_id, accessToken: access_token, operationId: uncertain! }
}).pipe(Effect.orDie)

/** What a newcomer needs to read with the demo grant: lines that work when pasted. */
export const invitation = (address: string, demo: Demo): string => {
  const curl = `curl -i -H 'Authorization: Bearer ${Redacted.value(demo.accessToken)}'`
  return `
The gateway listens on ${address}. Its documentation is at ${address}/docs.

Access token of the demo grant: ${Redacted.value(demo.accessToken)}

Read its operations, and then one whose outcome is uncertain:

  ${curl} ${address}/v1/operations
  ${curl} ${address}/v1/operations/${demo.operationId}

Revoke the grant in another terminal, read again, and be refused:

  npm run gateway -- grants revoke ${demo.grantId}
`
}

/** The same for a database that is not empty: whose tokens were shown once, and cannot be shown again. */
export const instructions = (address: string): string => `
The gateway listens on ${address}. Its documentation is at ${address}/docs.

The database is not empty, so there is no new demo grant. Issue another one for the same operations:

  npm run gateway -- grants issue --owner demo-owner --subject demo-subject --client demo-agent --provider demo-bank
`
