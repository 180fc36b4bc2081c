/**
 * The demo: one grant and nine operations that a sandbox provider carries out, with the texts for the terminal.
 */
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import { ClientId, operationsRead, PairwiseSubject, ProviderName, ResourceOwner } from "../domain/Grant.ts"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { Grants } from "../services/Grants.ts"
import { OperationLedger } from "../services/OperationLedger.ts"

/** The provider of the demo, as its provider connection names it. */
export const demoBank = ProviderName.make("demo-bank")

/** One operation of the demo. */
interface DemoOperation {
  readonly type: string
  readonly payload: { readonly [member: string]: Schema.Json }
  /** Instructions to the sandbox for this operation. */
  readonly sandbox: { readonly [member: string]: Schema.Json }
  readonly isCancelled?: true
  /** The sandbox loses the submission without a trace: the operation stays indeterminate for ever. */
  readonly isLost?: true
}

const demoOperations: ReadonlyArray<DemoOperation> = [
  {
    type: "payment",
    payload: { amount: "18.50", currency: "EUR", to: "Corner Shop" },
    sandbox: { outcome: "succeeded" }
  },
  {
    type: "payment",
    payload: { amount: "120.00", currency: "EUR", to: "Stadtwerke" },
    sandbox: { outcome: "succeeded", settle_after_ms: 6000 }
  },
  {
    type: "payment",
    payload: { amount: "99000.00", currency: "EUR", to: "Boat Yard" },
    sandbox: {
      outcome: "rejected",
      code: "insufficient_funds",
      message: "The account does not cover the amount."
    }
  },
  {
    type: "payment",
    payload: { amount: "42.00", currency: "EUR", to: "Library" },
    sandbox: { outcome: "succeeded", faults: { slow: { ms: 8000 } } }
  },
  {
    type: "payment.refund",
    payload: { amount: "18.50", currency: "EUR", of: "Corner Shop" },
    // The response is lost: only a status read shows that the provider carried out the refund.
    sandbox: { outcome: "succeeded", faults: { drop_response: true, not_found_for: { ms: 4000 } } }
  },
  {
    type: "transfer",
    payload: { amount: "400.00", currency: "EUR", to: "Savings" },
    sandbox: { outcome: "pending" }
  },
  {
    type: "transfer",
    payload: { amount: "750.00", currency: "EUR", to: "Landlord" },
    sandbox: { faults: { lose: true } },
    isLost: true
  },
  {
    type: "transfer",
    payload: { amount: "5.00", currency: "EUR", to: "Friend" },
    sandbox: { outcome: "succeeded" },
    isCancelled: true
  },
  {
    type: "investment.order",
    payload: { side: "buy", symbol: "ACME", quantity: 3 },
    sandbox: {
      outcome: "failed",
      settle_after_ms: 9000,
      code: "market_closed",
      message: "The market closed before the order was filled."
    }
  }
]

export interface Demo {
  readonly grantId: string
  readonly accessToken: Redacted.Redacted<string>
  readonly operations: ReadonlyArray<OperationId>
  /** The operation whose outcome stays unknown. */
  readonly uncertain: OperationId
}

/** Fills an empty ledger. Returns null and changes nothing if there is an operation already. */
export const fillWithDemo: Effect.Effect<Demo | null, never, Grants | OperationLedger> = Effect.gen(function*() {
  const grants = yield* Grants
  const ledger = yield* OperationLedger
  if (!(yield* ledger.isEmpty)) return null
  const { access_token, grant } = yield* grants.issue({
    resource_owner: ResourceOwner.make("demo-owner"),
    subject: PairwiseSubject.make("demo-subject"),
    client_id: ClientId.make("demo-agent"),
    provider: demoBank,
    scopes: [operationsRead],
    expires_in: Duration.days(30)
  })
  const operations = yield* Effect.forEach(
    demoOperations,
    ({ isCancelled, payload, sandbox, type }, index) =>
      Effect.gen(function*() {
        const request = { type, key: IdempotencyKey.make(`demo-${index + 1}`), payload: { ...payload, sandbox } }
        const { operation: { id } } = yield* ledger.accept(grant, request)
        if (isCancelled === true) {
          yield* ledger.cancel(id, { by: "operator", reason: "the resource owner cancelled it" })
        }
        return id
      })
  )
  const uncertain = operations[demoOperations.findIndex(({ isLost }) => isLost)]!
  return { grantId: grant.grant_id, accessToken: access_token, operations, uncertain }
}).pipe(Effect.orDie)

/** How long the demo prints changes. Afterwards no operation of the demo changes. */
const narration = Duration.minutes(1)

const lineOf = ({ completed_at, failure, id, state, type, under_review, updated_at }: Operation) =>
  `  ${new Date((completed_at ?? updated_at).epochMilliseconds).toISOString().slice(11, 19)}  ${id}  ${type.padEnd(17)}`
  + ` ${state}${failure === null ? "" : ` (${failure.code})`}${under_review ? ", under review" : ""}`

/** Prints a line for each change of an operation, for one minute. */
export const narrate = (demo: Demo): Effect.Effect<void, never, OperationLedger> =>
  Effect.gen(function*() {
    const ledger = yield* OperationLedger
    const shown = new Map<OperationId, string>()
    const look = Effect.forEach(demo.operations, (id) =>
      Effect.flatMap(ledger.show(id), (operation) => {
        const line = lineOf(operation)
        if (shown.get(id) === line) return Effect.void
        shown.set(id, line)
        return Console.log(line)
      }), { discard: true })
    yield* Console.log(
      "Workers submit the operations to a sandbox provider. Each line is a change that curl shows, too:\n"
    )
    yield* look.pipe(
      // The next round repeats a failed one.
      Effect.ignore,
      Effect.andThen(Effect.sleep("200 millis")),
      Effect.forever,
      Effect.timeoutOption(narration)
    )
    yield* Console.log(
      "\nTwo transfers are not settled. One is submitted. The other is indeterminate and under review: it may or may not\n"
        + "have happened. While a grant is live, workers read their status again and again, at growing intervals."
    )
  })

/** How a user starts this program: a clone runs the source, and an installed package the build. */
const command = import.meta.url.endsWith(".ts") ? "npm run gateway --" : "npx financial-agents-gateway"

/** The greeting of the demo: commands to paste that read with its grant. */
export const invitation = (address: string, demo: Demo): string => {
  const curl = `curl -i -H 'Authorization: Bearer ${Redacted.value(demo.accessToken)}'`
  return `
The gateway listens on ${address}. Its documentation is at ${address}/docs.

Access token of the demo grant: ${Redacted.value(demo.accessToken)}

Read its operations, and then the one whose outcome stays unknown:

  ${curl} ${address}/v1/operations
  ${curl} ${address}/v1/operations/${demo.uncertain}

Revoke the grant in another terminal. Then read again: the gateway refuses the token.

  ${command} grants revoke ${demo.grantId}
`
}

/** The greeting on a database that is not empty. Its tokens were shown once and cannot be shown again. */
export const instructions = (address: string): string => `
The gateway listens on ${address}. Its documentation is at ${address}/docs.

The database is not empty, so the demo creates no new grant. Issue another grant for the same operations:

  ${command} grants issue --owner demo-owner --subject demo-subject --client demo-agent --provider demo-bank
`
