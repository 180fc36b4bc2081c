/**
 * `grants`, `clients` and `providers`: who may read and submit.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import {
  ClientId,
  Grant,
  GrantId,
  operationsRead,
  PairwiseSubject,
  Provider,
  ProviderBindingId,
  ResourceOwner,
  Scope
} from "../domain/Grant.ts"
import { Grants } from "../services/Grants.ts"
import { id, Lifetime } from "./Flags.ts"
import { print } from "./Output.ts"

const encodeGrant = Schema.encodeSync(Grant)

const issue = Command.make(
  "issue",
  {
    owner: Flag.String("owner").pipe(
      Flag.withDescription("Resource owner: whose money it is"),
      Flag.withSchema(ResourceOwner)
    ),
    subject: Flag.String("subject").pipe(
      Flag.withDescription("Pairwise subject: the owner as this client knows it"),
      Flag.withSchema(PairwiseSubject)
    ),
    client: Flag.String("client").pipe(
      Flag.withDescription("Client: the agent that is given access"),
      Flag.withSchema(ClientId)
    ),
    scope: Flag.String("scope").pipe(
      Flag.withDescription(`Scope that is granted; repeat for several (default: ${operationsRead})`),
      Flag.withSchema(Scope),
      Flag.atLeast(0)
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
  },
  Effect.fn(function*({ client, expiresIn, owner, provider, scope, subject }) {
    const grants = yield* Grants
    const { access_token, grant } = yield* grants.issue({
      resource_owner: owner,
      subject,
      client_id: client,
      provider,
      scopes: scope.length === 0 ? [operationsRead] : scope,
      expires_in: expiresIn
    })
    yield* print({
      grant_id: grant.grant_id,
      client_id: grant.client_id,
      provider_binding_id: grant.provider_binding_id,
      // The one place where a token is shown: it cannot be read back.
      access_token: Redacted.value(access_token),
      expires_at: DateTime.formatIso(grant.expires_at)
    })
  })
).pipe(Command.withDescription("Issue a grant and its access token, which is shown this once"))

const show = Command.make(
  "show",
  { id: id(GrantId, "Grant") },
  Effect.fn(function*({ id }) {
    const grants = yield* Grants
    yield* print(encodeGrant(yield* grants.show(id)))
  })
).pipe(Command.withDescription("Show a grant and what its use depends on"))

const revoke = Command.make(
  "revoke",
  { id: id(GrantId, "Grant") },
  Effect.fn(function*({ id }) {
    const grants = yield* Grants
    yield* print(encodeGrant(yield* grants.revoke(id)))
  })
).pipe(Command.withDescription("Revoke a grant, for ever: the very next read with it is refused"))

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
    { id: id(ProviderBindingId, "Provider binding") },
    Effect.fn(function*({ id }) {
      const grants = yield* Grants
      yield* grants.setProviderConnected(id, connected)
      yield* print({ provider_binding_id: id, connected })
    })
  ).pipe(
    Command.withDescription(
      connected ? "Let the grants of a provider binding be used again" : "Refuse all reads through a provider binding"
    )
  )

export const grants = Command.make("grants").pipe(
  Command.withDescription("Issue, show and revoke grants"),
  Command.withSubcommands([issue, show, revoke])
)

export const clients = Command.make("clients").pipe(
  Command.withDescription("Activate and deactivate clients"),
  Command.withSubcommands([setClient("activate", true), setClient("deactivate", false)])
)

export const providers = Command.make("providers").pipe(
  Command.withDescription("Connect and disconnect provider bindings"),
  Command.withSubcommands([setProvider("connect", true), setProvider("disconnect", false)])
)
