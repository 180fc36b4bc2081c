/**
 * `grants`, `clients` and `providers`: who may read and submit.
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
import {
  ClientId,
  ExternalId,
  Grant,
  GrantId,
  Issuer,
  operationsRead,
  PairwiseSubject,
  Provider,
  ProviderConnectionId,
  ResourceOwner,
  Scope
} from "../domain/Grant.ts"
import { Blocker, GrantBlockers, revocationPatience, TerminatedBlocker } from "../services/GrantBlockers.ts"
import { Grants } from "../services/Grants.ts"
import { id, Lifetime } from "./Flags.ts"
import { CommandFailed, print } from "./Output.ts"

/** With its offset: what lacks one would mean another instant on another machine. */
const Instant = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/u, {
    expected: "an RFC 3339 date-time such as 2026-01-31T12:00:00Z"
  })
).pipe(Schema.decodeTo(Schema.DateTimeUtcFromString))

const encodeGrant = Schema.encodeSync(Grant)

const named = {
  issuer: Flag.String("issuer").pipe(
    Flag.withDescription("Authorization server, by its issuer identifier"),
    Flag.withSchema(Issuer)
  ),
  grant: Flag.String("grant").pipe(
    Flag.withDescription("Grant, as its authorization server calls it"),
    Flag.withSchema(ExternalId)
  ),
  subject: Flag.String("subject").pipe(
    Flag.withDescription("Pairwise subject: the owner as this client knows it"),
    Flag.withSchema(PairwiseSubject)
  ),
  client: Flag.String("client").pipe(
    Flag.withDescription(
      "Client: the agent that is given access; with the client_prefix of its issuer in front, where that has one"
    ),
    Flag.withSchema(ClientId)
  )
}

const granted = {
  owner: Flag.String("owner").pipe(
    Flag.withDescription("Resource owner: whose money it is"),
    Flag.withSchema(ResourceOwner)
  ),
  subject: named.subject,
  client: named.client,
  scope: Flag.String("scope").pipe(
    Flag.withDescription(`Scope that is granted; repeat for several (default: ${operationsRead})`),
    Flag.withSchema(Scope),
    Flag.atLeast(0),
    Flag.map((scopes): ReadonlyArray<Scope> => scopes.length === 0 ? [operationsRead] : scopes)
  ),
  provider: Flag.String("provider").pipe(
    Flag.withDescription("Upstream provider that the owner connected"),
    Flag.withSchema(Provider),
    Flag.withDefault(Provider.make("default"))
  ),
  expiresIn: Flag.String("expires-in").pipe(
    Flag.withDescription("Life of the grant, such as 90s, 15m, 1h or 30d (default: 1h)"),
    Flag.withDefault("1h"),
    Flag.withSchema(Lifetime)
  )
}

const issue = Command.make(
  "issue",
  granted,
  Effect.fn(function*({ client, expiresIn, owner, provider, scope, subject }) {
    const grants = yield* Grants
    const { access_token, grant } = yield* grants.issue({
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
      provider_binding_id: grant.provider_connection_id,
      // The one place where a token is shown: it cannot be read back.
      access_token: Redacted.value(access_token),
      expires_at: DateTime.formatIso(grant.expires_at)
    })
  })
).pipe(Command.withDescription("Issue a grant and its access token, which is shown this once"))

const register = Command.make(
  "register",
  {
    issuer: named.issuer,
    grant: named.grant,
    ...granted,
    grantedAt: Flag.String("granted-at").pipe(
      Flag.withDescription(
        "When it was granted (RFC 3339); without it, any earlier revocation of its subject or client holds for it"
      ),
      Flag.withSchema(Instant),
      Flag.optional
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
  Command.withDescription("Register a grant of an authorization server, or bring its scopes and its end up to date")
)

const show = Command.make(
  "show",
  { id: id(GrantId, "Grant") },
  Effect.fn(function*({ id }) {
    const grants = yield* Grants
    yield* print(encodeGrant(yield* grants.show(id)))
  })
).pipe(Command.withDescription("Show a grant and what its use depends on"))

interface Names {
  readonly issuer: Option.Option<Issuer>
  readonly client: Option.Option<ClientId>
  readonly grant: Option.Option<ExternalId>
  readonly subject: Option.Option<PairwiseSubject>
}

/** Revokes what these names name together; null when that is nothing. */
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
        message: "say what to revoke: ID, or --client, or --client and --issuer with --grant or --subject or neither"
      })
    }
    yield* print({ revoked: yield* revoked })
  })
).pipe(
  Command.withDescription(
    "Revoke grants, for ever: the very next read with them is refused. Those of an authorization server need not be known; "
      + "its client ids need their client_prefix in front. Fails if the ledger knows the issuer, but not the client"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway grants revoke 019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f",
      description: "One grant"
    },
    {
      command: "financial-agents-gateway grants revoke --issuer https://as.example --client agent --subject a1b2c3",
      description: "All that a subject gave to a client until now"
    },
    {
      command: "financial-agents-gateway grants revoke --client agent",
      description: "All that a client was given until now"
    }
  ])
)

const encodeBlockers = Schema.encodeSync(Schema.Array(Blocker))
const encodeTerminated = Schema.encodeSync(Schema.Array(TerminatedBlocker))

const blockers = Command.make(
  "blockers",
  {
    olderThan: Flag.String("older-than").pipe(
      Flag.withDescription("Age of the transactions to list, such as 10s or 1m (default: 5s)"),
      Flag.withDefault(`${Duration.toSeconds(revocationPatience)}s`),
      Flag.withSchema(Lifetime)
    ),
    terminate: Flag.Boolean("terminate").pipe(
      Flag.withDescription("End these sessions, except those that wait for another one themselves"),
      Flag.withDefault(false)
    )
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
    "List the database sessions that may hold up a revocation: their transactions have written or locked rows of grants"
  ),
  Command.withExamples([
    { command: "financial-agents-gateway grants blockers", description: "Who may hold up a revocation" },
    { command: "financial-agents-gateway grants blockers --terminate", description: "End these sessions" }
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
      active ? "Let a client use its grants again" : "Refuse all reads of a client until activated"
    )
  )

const setProvider = (name: "connect" | "disconnect", connected: boolean) =>
  Command.make(
    name,
    { id: id(ProviderConnectionId, "Provider connection") },
    Effect.fn(function*({ id }) {
      const grants = yield* Grants
      yield* grants.setProviderConnected(id, connected)
      yield* print({ provider_binding_id: id, connected })
    })
  ).pipe(
    Command.withDescription(
      connected
        ? "Let the grants of a provider connection be used again"
        : "Refuse all reads through a provider connection"
    )
  )

export const grants = Command.make("grants").pipe(
  Command.withDescription("Issue, register, show and revoke grants; see what holds up a revocation"),
  Command.withSubcommands([issue, register, show, revoke, blockers])
)

export const clients = Command.make("clients").pipe(
  Command.withDescription("Activate and deactivate clients"),
  Command.withSubcommands([setClient("activate", true), setClient("deactivate", false)])
)

export const providers = Command.make("providers").pipe(
  Command.withDescription("Connect and disconnect provider connections"),
  Command.withSubcommands([setProvider("connect", true), setProvider("disconnect", false)])
)
