/**
 * The verification of credentials for `serve`, each part on its pool.
 */
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import { OwnVerifier } from "../node/GatewayServices.ts"
import { databaseAs } from "../node/postgres/DatabaseRoles.ts"
import { ProofPool, ProvisioningPool } from "../node/postgres/Pools.ts"
import { Grants } from "../services/Grants.ts"
import { mayProvision } from "../services/sql/SqlGrants.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import type { IssuersOptions } from "../services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../services/verification/ProofReplay.ts"
import { readAuthorizationServers } from "./AuthorizationServers.ts"
import { CommandFailed } from "./Output.ts"

/** The pool that provisions grants: as the role of PROVISIONER_DATABASE_URL, else as that of DATABASE_URL. */
const ProvisionerPool = Layer.fresh(ProvisioningPool).pipe(Layer.provide(Layer.fresh(databaseAs("provisioner"))))

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
