/**
 * The verification of credentials for `serve` with authorization servers.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { OwnVerifier } from "../../node/GatewayServices.ts"
import { Database } from "../../node/postgres/Database.ts"
import { databaseAs } from "../../node/postgres/DatabaseRoles.ts"
import { ProofPool, ProvisioningPool } from "../../node/postgres/Pools.ts"
import { mayProvision } from "../../services/sql/grants/SqlGrants.ts"
import { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import type { IssuersOptions } from "../../services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../../services/verification/ProofReplay.ts"
import { CommandFailed } from "../Output.ts"

const requireProvisioner = Effect.gen(function*() {
  if (yield* mayProvision) return
  return yield* new CommandFailed({
    message: "the database role may not register grants, which first_sight in OAUTH_ISSUERS needs: "
      + "set PROVISIONER_DATABASE_URL to a role that may, such as gateway_provisioner (docs/postgresql.md)"
  })
})

/**
 * Verifies the tokens of these authorization servers, and those of the gateway itself. With grant provisioning, it fails at the start
 * if the role of PROVISIONER_DATABASE_URL, or else of this database, may not register grants.
 */
export const IssuersVerifier = (servers: IssuersOptions, database: Database["Service"]) => {
  const Provisioner = ProvisioningPool.pipe(
    Layer.provide(databaseAs("provisioner")),
    Layer.provide(Layer.succeed(Database, database))
  )
  const provisions = servers.issuers.some(({ grantProvisioning }) => grantProvisioning !== undefined)
  return Layer.unwrap(Effect.map(GrantVerifier, (own) => GrantVerifier.layerIssuers({ ...servers, own }))).pipe(
    Layer.provide([OwnVerifier, Layer.provide(ProofReplay.layer, ProofPool)]),
    Layer.provide(provisions ? Layer.provide(Layer.effectDiscard(requireProvisioner), Provisioner) : Layer.empty)
  )
}
