/**
 * The services behind `serve`, each on its pool: reads, readiness, and the verification of credentials.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Database } from "../node/Database.ts"
import { ListPool, ProbePool, ProofPool, ProvisioningPool, ReaderPool } from "../node/Pools.ts"
import { Grants } from "../services/Grants.ts"
import { OperationStore } from "../services/OperationStore.ts"
import { Readiness } from "../services/Readiness.ts"
import { mayProvision } from "../services/sql/SqlGrants.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import type { IssuersOptions } from "../services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../services/verification/ProofReplay.ts"
import { readAuthorizationServers } from "./AuthorizationServers.ts"
import { CommandFailed } from "./Output.ts"

/** Reads of operations, and the readiness probe. */
export const ReadServices = Layer.merge(
  OperationStore.layer.pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool))
)

/** Verifies the access tokens that the gateway itself issued. */
const OwnVerifier = GrantVerifier.layer.pipe(Layer.provide(ReaderPool))

/**
 * The pool that provisions grants. If PROVISIONER_DATABASE_URL is set, it connects as that role; else as the role of
 * DATABASE_URL.
 */
const ProvisionerPool = Layer.unwrap(Effect.gen(function*() {
  const database = yield* Database
  const url = Option.filter(
    yield* Config.option(Config.Redacted("PROVISIONER_DATABASE_URL")),
    (url) => Redacted.value(url).trim() !== ""
  )
  if (Option.isSome(url) && database.isEmbedded) {
    return yield* new CommandFailed({ message: "PROVISIONER_DATABASE_URL is set without DATABASE_URL: set both" })
  }
  const connection = {
    ...Option.isSome(url) ? { url: url.value } : database.connection,
    applicationName: "financial-agents-gateway provisioner"
  }
  return Layer.fresh(ProvisioningPool).pipe(Layer.provide(Layer.succeed(Database, { ...database, connection })))
}))

const requireProvisioner = Effect.gen(function*() {
  if (yield* mayProvision) return
  return yield* new CommandFailed({
    message: "the database role may not register grants, which first_sight in OAUTH_ISSUERS needs: "
      + "set PROVISIONER_DATABASE_URL to a role that may, such as gateway_provisioner (docs/postgresql.md)"
  })
})

/** Registers grants. With grant provisioning, it fails at the start if the database role may not register any. */
const Registrations = ({ issuers }: IssuersOptions) => {
  const provisions = issuers.some(({ grantProvisioning }) => grantProvisioning !== undefined)
  // Fresh: layers are shared by default, and the demo has a `Grants` on other connections.
  return Layer.merge(
    Layer.fresh(Grants.layer),
    provisions ? Layer.effectDiscard(requireProvisioner) : Layer.empty
  ).pipe(Layer.provide(ProvisionerPool))
}

/** Verifies the tokens of the authorization servers that OAUTH_ISSUERS names, and those of the gateway itself. */
export const Verifier = (baseUrl: string, rateLimited: boolean) =>
  Layer.unwrap(Effect.gen(function*() {
    const servers = yield* readAuthorizationServers(baseUrl, rateLimited)
    if (servers === null) return OwnVerifier
    return Layer.unwrap(Effect.map(GrantVerifier, (own) => GrantVerifier.layerIssuers({ ...servers, own }))).pipe(
      Layer.provide(OwnVerifier),
      Layer.provide([
        ProofReplay.layer.pipe(Layer.provide(ProofPool)),
        Registrations(servers),
        FetchHttpClient.layer
      ])
    )
  }))
