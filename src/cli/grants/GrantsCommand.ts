/**
 * `grants`, `clients` and `providers`: administers the grants and what their use depends on.
 *
 * The room `cli/grants`: these commands.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { decodeAuthorizationDetails, financialOperations, RemainingLimit } from "../../domain/AuthorizationDetails.ts"
import {
  ClientId,
  ExternalId,
  Grant,
  GrantId,
  Issuer,
  operationsRead,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  ResourceOwner,
  Scope
} from "../../domain/Grant.ts"
import { Blocker, revocationPatience } from "../../domain/operators/GrantsBlocked.ts"
import { isInstant } from "../../domain/Timestamp.ts"
import { GrantBlockers, TerminatedBlocker } from "../../services/GrantBlockers.ts"
import { Grants } from "../../services/Grants.ts"
import { id, jsonFlag, Lifetime, optionalText, text, textOr, toggle } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"

const encodeBlockers = Schema.encodeSync(Schema.Array(Blocker))
const encodeTerminated = Schema.encodeSync(Schema.Array(TerminatedBlocker))

const blockers = Command.make(
  "blockers",
  {
    olderThan: textOr(
      "older-than",
      "Minimum age of the transactions, such as 10s or 1m",
      `${Duration.toSeconds(revocationPatience)}s`,
      Lifetime
    ),
    terminate: toggle("terminate", "End these sessions, except sessions that wait for another session")
  },
  Effect.fn(function*({ olderThan, terminate }) {
    const sessions = yield* GrantBlockers
    yield* print({
      blockers: terminate
        ? encodeTerminated(yield* sessions.terminate(olderThan))
        : encodeBlockers(yield* sessions.list(olderThan))
    })
  })
).pipe(
  Command.withDescription(
    "List the database sessions that may block a revocation: their transactions wrote or locked rows of grants"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway grants blockers",
      description: "List the sessions that may block a revocation"
    },
    { command: "financial-agents-gateway grants blockers --terminate", description: "End these sessions" }
  ])
)

/** An instant with its offset. Without one, it would be another instant on a machine in another time zone. */
const Instant = Schema.String.check(
  Schema.makeFilter(isInstant, { expected: "an RFC 3339 date-time such as 2026-01-31T12:00:00Z" })
).pipe(Schema.decodeTo(Schema.DateTimeUtcFromString))

/** A grant as the commands print it. */
const encodeGrant = Schema.encodeSync(Grant)

const encodeLimits = Schema.encodeSync(Schema.Array(RemainingLimit))

const named = {
  issuer: text("issuer", "Authorization server, by its issuer identifier", Issuer),
  grant: text("grant", "Grant, by the id of its authorization server", ExternalId),
  subject: text("subject", "Pairwise subject: the id of the resource owner for this client", PairwiseSubject),
  client: text(
    "client",
    "Client (the agent) of the grant; if its issuer has a client_prefix, put it in front of the id",
    ClientId
  )
}

const granted = {
  owner: text("owner", "Resource owner of the operations", ResourceOwner),
  subject: named.subject,
  client: named.client,
  scope: Flag.String("scope").pipe(
    Flag.withDescription(`Scope of the grant; repeat for several (default: ${operationsRead})`),
    Flag.withSchema(Scope),
    Flag.atLeast(1),
    Flag.withDefault<ReadonlyArray<Scope>>([operationsRead])
  ),
  provider: textOr(
    "provider",
    "Upstream provider that the resource owner connected",
    ProviderName.make("default"),
    ProviderName
  ),
  expiresIn: textOr("expires-in", "Lifetime of the grant, such as 90s, 15m, 1h or 30d", "1h", Lifetime)
}

const limits = jsonFlag("limits").pipe(
  Flag.withDescription(
    "Limits of the grant: a JSON array of objects of the type financial_operations (RFC 9396, docs/spending.md); - for standard input"
  ),
  Flag.withDefault(null)
)

/** The limits that the flag gives to a grant. A document without any would issue a grant without limits, so it is refused. */
const limitsOf = Effect.fn(function*(given: Schema.Json) {
  if (given === null) return {}
  const details = yield* Effect.mapError(
    decodeAuthorizationDetails(given),
    ({ message }) => new CommandFailed({ message: `--limits: ${message}` })
  )
  if (details !== null) return { authorization_details: details }
  return yield* new CommandFailed({ message: `--limits: no object has the type ${financialOperations}` })
})

const issue = Command.make(
  "issue",
  { ...granted, limits },
  Effect.fn(function*({ client, expiresIn, limits, owner, provider, scope, subject }) {
    const grants = yield* Grants
    const { access_token, grant } = yield* grants.issue({
      ...yield* limitsOf(limits),
      resource_owner: owner,
      subject,
      client_id: client,
      provider,
      scopes: scope,
      expires_in: expiresIn
    })
    yield* print({
      grant_id: grant.grant_id,
      client_id: grant.client_id,
      provider_connection_id: grant.provider_connection_id,
      // The only time that the token is shown: it cannot be read back.
      access_token: Redacted.value(access_token),
      expires_at: DateTime.formatIso(grant.expires_at)
    })
  })
).pipe(Command.withDescription("Issue a grant and its access token. The token is shown only once"))

const register = Command.make(
  "register",
  {
    issuer: named.issuer,
    grant: named.grant,
    ...granted,
    grantedAt: optionalText(
      "granted-at",
      "When the grant was given (RFC 3339). Without it, earlier revocations of its subject or client apply to it",
      Instant
    )
  },
  Effect.fn(function*({ client, expiresIn, grant, grantedAt, issuer, owner, provider, scope, subject }) {
    const grants = yield* Grants
    const registered = yield* grants.register({
      issuer,
      grant,
      client_id: client,
      subject,
      resource_owner: owner,
      provider,
      scopes: scope,
      expires_at: DateTime.addDuration(yield* DateTime.now, expiresIn),
      granted_at: Option.getOrNull(grantedAt)
    })
    yield* print(encodeGrant(registered))
  })
).pipe(
  Command.withDescription("Register a grant of an authorization server, or update its scopes and expiry")
)

const show = Command.make(
  "show",
  { id: id(GrantId, "Grant") },
  Effect.fn(function*({ id }) {
    const grants = yield* Grants
    const grant = yield* grants.show(id)
    const remaining = grant.authorization_details === undefined
      ? {}
      : { limits: encodeLimits(yield* grants.limits(id)) }
    yield* print({ ...encodeGrant(grant), ...remaining })
  })
).pipe(
  Command.withDescription("Show a grant, its client, its provider connection, and what remains of its limits")
)

interface Names {
  readonly issuer: Option.Option<Issuer>
  readonly client: Option.Option<ClientId>
  readonly grant: Option.Option<ExternalId>
  readonly subject: Option.Option<PairwiseSubject>
}

/** Revokes the grants that these names select together; null if the combination selects none. */
const revokeNamed = (grants: Grants["Service"], { client, grant, issuer, subject }: Names) => {
  if (Option.isNone(client) || (Option.isSome(grant) && Option.isSome(subject))) return null
  const client_id = client.value
  if (Option.isNone(grant) && Option.isNone(subject)) {
    return grants.revokeClient({ issuer: Option.getOrNull(issuer), client_id })
  }
  if (Option.isNone(issuer)) return null
  if (Option.isSome(grant)) return grants.revokeExternal({ issuer: issuer.value, client_id, grant: grant.value })
  return Option.isSome(subject)
    ? grants.revokeSubject({ issuer: issuer.value, client_id, subject: subject.value })
    : null
}

const revoke = Command.make(
  "revoke",
  {
    id: Argument.optional(id(GrantId, "Grant, by the gateway's id")),
    issuer: Flag.optional(named.issuer),
    client: Flag.optional(named.client),
    grant: Flag.optional(named.grant),
    subject: Flag.optional(named.subject)
  },
  Effect.fn(function*({ id, ...names }) {
    const grants = yield* Grants
    if (Option.isSome(id) && Object.values(names).every((name) => Option.isNone<unknown>(name))) {
      return yield* print(encodeGrant(yield* grants.revoke(id.value)))
    }
    const revoked = Option.isSome(id) ? null : revokeNamed(grants, names)
    if (revoked === null) {
      return yield* new CommandFailed({
        message:
          "specify the grants: ID, or --client, or --client and --issuer, with at most one of --grant and --subject"
      })
    }
    yield* print({ revoked: yield* revoked })
  })
).pipe(
  Command.withDescription(
    "Revoke grants for ever. The next read with them is refused. Specify ID, or --client, optionally with --issuer. With "
      + "--issuer, one of --grant and --subject may be added. Revocation by --client also covers grants that the gateway "
      + "has not seen. Put the issuer's client_prefix in front of --client. Fails if the ledger has grants of the issuer, "
      + "but none of the client"
  ),
  Command.withShortDescription("Revoke grants for ever: the next read with them is refused"),
  Command.withExamples([
    {
      command: "financial-agents-gateway grants revoke 019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f",
      description: "One grant"
    },
    {
      command: "financial-agents-gateway grants revoke --issuer https://as.example --client agent --subject a1b2c3",
      description: "All grants of a subject to a client until now"
    },
    {
      command: "financial-agents-gateway grants revoke --client agent",
      description: "All grants of a client until now"
    }
  ])
)

const setClient = (name: "activate" | "deactivate", active: boolean) =>
  Command.make(
    name,
    { id: id(ClientId, "Client") },
    Effect.fn(function*({ id }) {
      const grants = yield* Grants
      yield* grants.setClientActive(id, active)
      yield* print({ client_id: id, active })
    })
  ).pipe(
    Command.withDescription(
      active
        ? "Allow a client to use its grants"
        : "Refuse reads and acceptances of a client, and hold back its submissions, until it is activated"
    )
  )

const setProvider = (name: "connect" | "disconnect", connected: boolean) =>
  Command.make(
    name,
    { id: id(ProviderConnectionId, "Provider connection (provider_connection_id in the output of grants show)") },
    Effect.fn(function*({ id }) {
      const grants = yield* Grants
      yield* grants.setProviderConnected(id, connected)
      yield* print({ provider_connection_id: id, connected })
    })
  ).pipe(
    Command.withDescription(
      connected
        ? "Allow reads, acceptances and submissions through a provider connection"
        : "Refuse reads and acceptances through a provider connection, and hold back submissions, until it is connected"
    )
  )

export const grants = Command.make("grants").pipe(
  Command.withDescription("Issue, register, show and revoke grants; list blockers of a revocation"),
  Command.withSubcommands([issue, register, show, revoke, blockers])
)

export const clients = Command.make("clients").pipe(
  Command.withDescription("Activate and deactivate clients"),
  Command.withSubcommands([setClient("activate", true), setClient("deactivate", false)])
)

export const providers = Command.make("providers").pipe(
  Command.withDescription("Disconnect provider connections, and connect them again"),
  Command.withSubcommands([setProvider("connect", true), setProvider("disconnect", false)])
)
