/**
 * `approvals`: the operations that wait for a person, and the decision of an operator.
 *
 * The room `cli/approvals`: this command.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Approval, type PendingApprovals, RequestDigest } from "../../domain/Approval.ts"
import { ResourceOwner } from "../../domain/Grant.ts"
import { OperationId } from "../../domain/Operation.ts"
import { isReadable, maskTerms } from "../../domain/Terms.ts"
import { invocation } from "../../node/process/Invocation.ts"
import { Approvals } from "../../services/Approvals.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { actingFlags, actingOperator, id, optionalText, text } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"

const encode = Schema.encodeSync(Approval)

const masked = (approval: Approval): Approval => ({
  ...approval,
  terms: approval.terms && maskTerms(approval.terms)
})

/** Page by page, so that no number of operations hides others. */
const listAll = Effect.fnUntraced(function*(which: PendingApprovals) {
  const approvals = yield* Approvals
  const all: Array<Approval> = []
  while (true) {
    const after = all.at(-1)
    const page = yield* approvals.pending({ ...which, limit: 1000, ...after && { after } })
    all.push(...page)
    if (page.length < 1000) return all
  }
})

const list = Command.make(
  "list",
  { owner: optionalText("owner", "Only operations of this resource owner", ResourceOwner) },
  Effect.fn(function*({ owner }) {
    const found = yield* listAll({ ...Option.isSome(owner) && { resource_owner: owner.value } })
    // Without the digest: an approval repeats that of `show`, which is recorded.
    const listed = found.map((approval) => {
      const { request_digest: _, ...rest } = encode(masked(approval))
      return rest
    })
    yield* print({ approvals: listed })
  })
).pipe(
  Command.withDescription("List the operations that wait for an approval, with masked terms, the first to end in front")
)

const findApproval = (id: OperationId) =>
  Effect.flatMap(Approvals.use((approvals) => approvals.find(id)), (approval) =>
    approval === null
      ? Effect.fail(new CommandFailed({ message: `operation ${id} waits for no approval, and never did` }))
      : Effect.succeed(approval))

const show = Command.make(
  "show",
  { id: id(OperationId, "Operation"), ...actingFlags },
  Effect.fn(function*({ id, ...acting }) {
    const approval = yield* findApproval(id)
    if (approval.terms !== null && !isReadable(approval.terms)) {
      return yield* new CommandFailed({
        message:
          `the keys of this process do not open the terms of operation ${id}, so it cannot be approved here: set PAYLOAD_KEYS `
          + "as the application has it"
      })
    }
    // Nothing is shown that is not recorded.
    yield* OperatorActions.use((actions) => actions.showTerms([id], actingOperator(acting)))
    const decision = `approvals approve ${id} --digest ${approval.request_digest}`
    const next = `${invocation} ${decision}, or approvals deny with the same`
    yield* print({ ...encode(approval), ...approval.state === "pending" ? { next } : {} })
  })
).pipe(
  Command.withDescription(
    "Show the approval of an operation with its terms, which is recorded, and the digest that a decision repeats"
  )
)

const decide = (name: "approve" | "deny", decision: "approved" | "denied", description: string) =>
  Command.make(
    name,
    {
      id: id(OperationId, "Operation"),
      digest: text(
        "digest",
        "request_digest of approvals show: the decision is about the request that you saw",
        RequestDigest
      ),
      ...actingFlags
    },
    Effect.fn(function*({ digest, id, ...acting }) {
      const { name, reason, via } = actingOperator(acting)
      const approval = yield* Approvals.use((approvals) =>
        approvals.decide({
          operation_id: id,
          request_digest: digest,
          decision,
          decider: { as: "operator", name, via },
          reason
        })
      )
      yield* print(encode(masked(approval)))
    })
  ).pipe(Command.withDescription(description))

export const approvals = Command.make("approvals").pipe(
  Command.withDescription("List, show, approve and deny operations that wait for a person"),
  Command.withSubcommands([
    list,
    show,
    decide("approve", "approved", "Approve an operation, so that a worker sends it"),
    decide("deny", "denied", "Deny an operation: it is cancelled, and never sent")
  ])
)
