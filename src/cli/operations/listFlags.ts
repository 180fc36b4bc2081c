/**
 * The flags of `operations list`: the query, and the call for its next page.
 */
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ClientId, ProviderName, ResourceOwner } from "../../domain/Grant.ts"
import { IdempotencyKey } from "../../domain/Idempotency.ts"
import { operationStates } from "../../domain/Operation.ts"
import type { OperationListQuery } from "../../domain/operators/OperatorView.ts"
import { ProviderReference } from "../../domain/Submission.ts"
import { shellWord, toInvocation } from "../../node/process/Invocation.ts"
import { Lifetime } from "../Flags.ts"
import { CommandFailed } from "../Output.ts"

export const filterFlags = {
  state: Flag.Literals("state", operationStates).pipe(
    Flag.withDescription("State; repeat for several"),
    Flag.atLeast(0)
  ),
  provider: Flag.String("provider").pipe(
    Flag.withDescription("Name of the provider"),
    Flag.withSchema(ProviderName),
    Flag.optional
  ),
  olderThan: Flag.String("older-than").pipe(
    Flag.withDescription("In its state for longer than this, such as 15m or 2h"),
    Flag.withSchema(Lifetime),
    Flag.optional
  ),
  held: Flag.Boolean("held").pipe(Flag.withDescription("Held operations"), Flag.withDefault(false)),
  underReview: Flag.Boolean("under-review").pipe(
    Flag.withDescription("Operations under review"),
    Flag.withDefault(false)
  ),
  waiting: Flag.Boolean("waiting").pipe(
    Flag.withDescription("Operations that a worker found due but not ready, and returned claims"),
    Flag.withDefault(false)
  ),
  owner: Flag.String("owner").pipe(
    Flag.withDescription("Resource owner"),
    Flag.withSchema(ResourceOwner),
    Flag.optional
  ),
  client: Flag.String("client").pipe(Flag.withDescription("Client"), Flag.withSchema(ClientId), Flag.optional),
  key: Flag.String("key").pipe(
    Flag.withDescription("Idempotency key"),
    Flag.withSchema(IdempotencyKey),
    Flag.optional
  ),
  reference: Flag.String("reference").pipe(
    Flag.withDescription("Reference at the provider"),
    Flag.withSchema(ProviderReference),
    Flag.optional
  )
}

export const pageFlags = {
  order: Flag.Literals("order", ["oldest", "newest"]).pipe(
    Flag.withDescription("Order by the time of the last transition (default: newest)"),
    Flag.withDefault("newest")
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Operations on a page, 1 to 1000 (default: 50)"),
    Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
    Flag.withDefault(50)
  ),
  after: Flag.String("after").pipe(
    Flag.withDescription("Where the page before ended; its call prints this"),
    Flag.optional
  )
}

export type ListFlags =
  & Command.Command.Config.Infer<typeof filterFlags>
  & Command.Command.Config.Infer<typeof pageFlags>

/** The queue that the flags name, if they name one. */
const queueOf = ({ held, underReview, waiting }: ListFlags) => {
  const named = [
    ...held ? ["held"] as const : [],
    ...underReview ? ["under_review"] as const : [],
    ...waiting ? ["waiting"] as const : []
  ]
  return named.length > 1
    ? Effect.fail(new CommandFailed({ message: "specify at most one of --held, --under-review and --waiting" }))
    : Effect.succeed(named.length === 1 ? { queue: named[0]! } : {})
}

/** An object with the member, if there is a value. */
const member = <Name extends string, A>(name: Name, value: Option.Option<A>): { readonly [_ in Name]?: A } =>
  Option.isSome(value) ? { [name]: value.value } as { readonly [_ in Name]: A } : {}

/** The query of the flags. Fails if they name several queues. */
export const toQuery = (flags: ListFlags, now: DateTime.Utc): Effect.Effect<OperationListQuery, CommandFailed> =>
  Effect.map(queueOf(flags), (queue) => ({
    ...flags.state.length > 0 ? { states: flags.state } : {},
    ...queue,
    ...member("provider", flags.provider),
    ...member("client_id", flags.client),
    ...member("resource_owner", flags.owner),
    ...member("idempotency_key", flags.key),
    ...member("reference", flags.reference),
    ...member("unchanged_since", Option.map(flags.olderThan, (span) => DateTime.subtractDuration(now, span))),
    order: flags.order,
    limit: flags.limit,
    ...member("after", flags.after)
  }))

/** A flag with its value. A value that begins with a hyphen would be read as a flag. */
const given = (name: string, value: string): string =>
  `--${name}${value.startsWith("-") ? "=" : " "}${shellWord(value)}`

/** The call that prints the page behind `next`, as it is typed. `shown` are further flags, such as `--wide`. */
export const nextPageCall = (flags: ListFlags, next: string, shown: ReadonlyArray<string>): string => {
  const values = {
    provider: flags.provider,
    "older-than": Option.map(flags.olderThan, (span) => `${Duration.toSeconds(span)}s`),
    owner: flags.owner,
    client: flags.client,
    key: flags.key,
    reference: flags.reference
  }
  return toInvocation([
    "financial-agents-gateway operations list",
    ...flags.state.map((state) => `--state ${state}`),
    ...flags.held ? ["--held"] : [],
    ...flags.underReview ? ["--under-review"] : [],
    ...flags.waiting ? ["--waiting"] : [],
    ...Object.entries(values).flatMap(([name, value]) => Option.isSome(value) ? [given(name, value.value)] : []),
    `--order ${flags.order} --limit ${flags.limit}`,
    ...shown.map((name) => `--${name}`),
    given("after", next)
  ].join(" "))
}
