/**
 * The demo: one grant with limits, a request that they refuse, an operation that waits for an approval, a cancelled one, and eight that
 * workers submit to a sandbox provider, with the texts for the terminal.
 */
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import type { AuthorizationDetails } from "../../domain/AuthorizationDetails.ts"
import type { ChangeToken, LedgerChange, LedgerChanges } from "../../domain/ChangeFeed.ts"
import {
  ClientId,
  type GrantIdentity,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "../../domain/Grant.ts"
import { IdempotencyKey } from "../../domain/Idempotency.ts"
import type { Operation } from "../../domain/Operation.ts"
import type { Terms } from "../../domain/Terms.ts"
import { WriteServices } from "../../node/GatewayParts.ts"
import { Database } from "../../node/postgres/Database.ts"
import { WriterPool } from "../../node/postgres/Pools.ts"
import { invocation, shellWord } from "../../node/process/Invocation.ts"
import { Sandbox } from "../../sandbox/Sandbox.ts"
import { inTime, persist } from "../../server/waits/ChangeFollower.ts"
import { Approvals } from "../../services/Approvals.ts"
import { Grants, type IssuedGrant } from "../../services/Grants.ts"
import { OperationFeed } from "../../services/OperationFeed.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import * as SandboxProvider from "../../submission/http/SandboxProvider.ts"
import { Providers } from "../../submission/providers/Providers.ts"
import { defaultPolicy, SubmissionPolicy } from "../../submission/SubmissionPolicy.ts"

/** The provider of the demo, as its provider connection names it. */
const demoBank = ProviderName.make("demo-bank")

/** One operation of the demo. */
interface DemoOperation {
  readonly type: string
  /** Amount, currency and payee: `to`, or the payee `of` the payment that is refunded. */
  readonly payload: { readonly [member: string]: Schema.Json }
  /** Instructions to the sandbox for this operation. */
  readonly sandbox: { readonly [member: string]: Schema.Json }
  readonly isCancelled?: true
  /** The sandbox loses the submission without a trace: the operation stays indeterminate for ever. */
  readonly isLost?: true
  /** It is above the line from which a person approves. */
  readonly isWaiting?: true
}

/** What clients read of failures that the sandbox does not know by itself. */
const failures = { market_closed: { message: "The market closed before the order was filled." } }

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
    // The provider never decides it.
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
    type: "transfer",
    payload: { amount: "2500.00", currency: "EUR", to: "Car Dealer" },
    sandbox: { outcome: "succeeded" },
    isWaiting: true
  },
  {
    type: "investment.order",
    payload: { side: "buy", amount: "360.00", currency: "USD", to: "ACME" },
    sandbox: {
      outcome: "failed",
      settle_after_ms: 9000,
      code: "market_closed",
      message: failures.market_closed.message
    }
  }
]

/** The limits of the demo's grant. */
const limits: AuthorizationDetails = [
  {
    type: "financial_operations",
    operation_types: ["payment", "payment.refund", "transfer"],
    budgets: [{ currency: "EUR", amount: "120000.00", per: "day", rolling: true }]
  },
  {
    type: "financial_operations",
    operation_types: ["transfer"],
    approval: { above: [{ currency: "EUR", amount: "1000.00" }] }
  },
  {
    type: "financial_operations",
    operation_types: ["investment.order"],
    max_amount: [{ currency: "USD", amount: "500.00" }]
  }
]

/** A request above what the others leave of the limits. */
const aboveLimits: DemoOperation = {
  type: "payment",
  payload: { amount: "25000.00", currency: "EUR", to: "Boat Yard" },
  sandbox: { outcome: "succeeded" }
}

interface Demo {
  readonly grantId: string
  readonly accessToken: Redacted.Redacted<string>
  readonly operations: ReadonlyArray<Operation>
  /** The operation whose outcome stays unknown. */
  readonly uncertain: Operation
  /** An operation that waits for an approval. */
  readonly waiting: Operation
  /** The refusal of the request above the limits; null on a later start. */
  readonly refused: string | null
}

const owner = {
  client_id: ClientId.make("demo-agent"),
  subject: PairwiseSubject.make("demo-subject"),
  resource_owner: ResourceOwner.make("demo-owner")
}

/** The idempotency key of an operation of the demo, by its place. */
const keyOf = (index: number) => IdempotencyKey.make(`demo-${index + 1}`)

const issueGrant = Effect.flatMap(
  Grants,
  (grants) =>
    grants.issue({
      ...owner,
      provider: demoBank,
      scopes: [operationsRead],
      expires_in: Duration.days(30),
      authorization_details: limits
    })
)

const requestOf = (index: number, { payload, sandbox, type }: DemoOperation) => {
  const { amount, currency, of, to = of } = payload
  return { type, key: keyOf(index), payload: { ...payload, sandbox }, terms: { amount, currency, payee: to } as Terms }
}

const accept = Effect.fn(function*(grant: GrantIdentity, index: number, demo: DemoOperation) {
  const ledger = yield* OperationLedger
  const { operation } = yield* ledger.accept(grant, requestOf(index, demo))
  return demo.isCancelled === true
    ? yield* ledger.cancel(operation.id, { by: "operator", reason: "the resource owner cancelled it" })
    : operation
})

/** The request above the limits is refused, and the answer says why. */
const refuse = (grant: GrantIdentity) =>
  OperationLedger.use((ledger) => ledger.accept(grant, requestOf(demoOperations.length, aboveLimits))).pipe(
    Effect.flip,
    Effect.map(({ message }) => message)
  )

const toDemo = (
  { access_token, grant }: IssuedGrant,
  operations: ReadonlyArray<Operation>,
  refused: string | null
): Demo => {
  const uncertain = operations[demoOperations.findIndex(({ isLost }) => isLost)]!
  const waiting = operations[demoOperations.findIndex(({ isWaiting }) => isWaiting)]!
  return { grantId: grant.grant_id, accessToken: access_token, operations, uncertain, waiting, refused }
}

/** Fills an empty ledger. Returns null and changes nothing if there is an operation already. */
const fillWithDemo: Effect.Effect<Demo | null, never, Grants | OperationLedger> = Effect.gen(function*() {
  const ledger = yield* OperationLedger
  if (!(yield* ledger.isEmpty)) return null
  const issued = yield* issueGrant
  const operations = yield* Effect.forEach(demoOperations, (demo, index) => accept(issued.grant, index, demo))
  return toDemo(issued, operations, yield* refuse(issued.grant))
}).pipe(Effect.orDie)

/** Issues another grant for the demo of an earlier start. Returns null and changes nothing if the ledger lacks it. */
const reopenDemo: Effect.Effect<Demo | null, never, Grants | OperationLedger> = Effect.gen(function*() {
  const ledger = yield* OperationLedger
  const found = yield* Effect.forEach(demoOperations, (_, index) => ledger.bound({ ...owner, key: keyOf(index) }))
  const operations = found.filter((operation) => operation !== null)
  return operations.length < demoOperations.length ? null : toDemo(yield* issueGrant, operations, null)
}).pipe(Effect.orDie)

/** How often the demo reads the change feed. Changes between two reads are one line. */
const interval = Duration.millis(500)

const lineOf = ({ failure, id, state, type, under_review }: Operation) =>
  `  ${id}  ${type.padEnd(17)} ${state}${failure === null ? "" : ` (${failure.code})`}${
    under_review ? ", under review" : ""
  }`

const started = (refused: string) =>
  `The ledger refused 25000.00 EUR: ${refused}.
The bank will reject another one, of 99000.00 EUR. Its amount is free again then, and 116151.00 EUR remain.

Workers submit eight operations to a sandbox provider. One was cancelled before; one waits for an approval.
Two of the eight stay open, one submitted and one indeterminate: workers go on reading their status.
Each line is an operation that has changed, with the time at which the demo saw it (UTC):
`

const startedAgain = `The operations of an earlier start, as they are. Each further line is one that has changed:
`

/** Prints a line for each operation of the demo, and another one when it has changed, as long as the process runs. */
const narrate = Effect.fnUntraced(function*({ operations, refused }: Demo) {
  const feed = yield* OperationFeed
  const shown = new Map(operations.map(({ id }) => [id, ""]))
  let after: ChangeToken | null = null
  const print = Effect.fnUntraced(function*({ operation }: LedgerChange) {
    const line = lineOf(operation)
    if ((shown.get(operation.id) ?? line) === line) return
    shown.set(operation.id, line)
    yield* Console.log(`  ${DateTime.formatIso(yield* DateTime.now).slice(11, 19)}${line}`)
  })
  const read = Effect.fnUntraced(function*(onSuccess: () => void) {
    const page: LedgerChanges = yield* inTime(feed.sinceInLedger(after, 100))
    yield* Effect.forEach(page.changes, print)
    after = page.next
    onSuccess()
    if (!page.has_more) yield* Effect.sleep(interval)
  })
  yield* Console.log(refused === null ? startedAgain : started(refused))
  // Spans of an endless loop would only fill a collector. After a failure the token may be of another history.
  return yield* Effect.withTracerEnabled(
    persist("The demo cannot read changes; it tries again", read, () => {
      after = null
    }),
    false
  )
})

/** The data directory for commands in the second terminal, unless they find it by themselves: on a line of its own, because it may be long. */
const dataDirOf = Effect.gen(function*() {
  const path = yield* Path.Path
  const { dataDirectory } = yield* Database
  return dataDirectory === null || dataDirectory === path.resolve(".data")
    ? ""
    : ` \\\n    DATA_DIR=${shellWord(dataDirectory)}`
})

/** The greeting of the demo: links, and six lines to paste, which name what is still open alone. It fits a screen of 110 columns. */
const invitation = Effect.fnUntraced(function*(address: string, { accessToken, grantId, uncertain, waiting }: Demo) {
  const approval = yield* Effect.orDie(Approvals.use(({ find }) => find(waiting.id)))
  const curl = "curl -H \"Authorization: Bearer $TOKEN\""
  const lines = [
    `${curl} $GATEWAY/v1/operations`,
    `${curl} $GATEWAY/v1/limits # what the grant may still spend`,
    ...uncertain.terminal ? [] : [`${curl} $GATEWAY/v1/operations/${uncertain.id} # unknown`],
    `${curl} $GATEWAY/v1/operations/changes # the change feed`,
    ...approval?.state === "pending" ? [`${invocation} approvals show ${waiting.id} # then approve it`] : [],
    `${invocation} grants revoke ${grantId} # then read again`
  ]
  return `
Gateway: ${address}
Documentation: ${address}/docs
Agents (MCP): ${address}/mcp

Paste into a second terminal:
  export GATEWAY=${address} TOKEN=${Redacted.value(accessToken)}${yield* dataDirOf}

${lines.map((line) => `  ${line}\n`).join("")}`
})

/** The greeting on a database that holds other operations. */
const instructions = (address: string): string => `
Gateway: ${address}   Documentation: ${address}/docs

The database holds operations that are not of the demo, so the demo changes nothing. Issue a grant to read with:

  ${invocation} grants issue --owner OWNER --subject SUBJECT --client CLIENT
`

/** Its record is a file beside the database, so that it lives as long as the ledger. The command `sandbox` writes to another file. */
const Bank = Layer.unwrap(Effect.gen(function*() {
  const path = yield* Path.Path
  const { dataDirectory } = yield* Database
  return Sandbox.layer({ record: path.join(dataDirectory ?? ".", "demo-bank.jsonl") })
}))

const Adapters = Layer.unwrap(
  Effect.map(Sandbox, ({ url }) => Providers.layer({ [demoBank]: SandboxProvider.layer({ baseUrl: url, failures }) }))
).pipe(Layer.provide(Bank))

/** The default policy, except that the review of an indeterminate operation begins after 15 seconds. */
const policy = { ...defaultPolicy, reviewAfter: { ...defaultPolicy.reviewAfter, indeterminate: Duration.seconds(15) } }

/** Fills an empty database, or issues another grant for the demo of an earlier start. Prints how to read it, and its changes. */
const showDemo = Effect.fn(function*(address: string) {
  const demo = (yield* fillWithDemo) ?? (yield* reopenDemo)
  if (demo === null) return yield* Console.log(instructions(address))
  yield* Console.log(yield* invitation(address, demo))
  yield* Effect.forkScoped(narrate(demo))
})

/** What the demo needs, on one pool. Fresh: services of the process may be on other connections. */
const Services = Layer.fresh(
  Layer.merge(WriteServices, Layer.provide(Layer.merge(Approvals.layer, OperationFeed.layer), WriterPool))
)

/** The demo of a gateway at this address. Its operations are accepted before the workers start, because one of them is cancelled. */
export const demoParts = (address: string) => ({
  providers: Layer.provide(Adapters, Layer.provide(Layer.effectDiscard(showDemo(address)), Services)),
  references: Layer.succeed(SubmissionPolicy, policy)
})
