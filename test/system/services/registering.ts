/** A process that registers one grant, as the gateway does in grant provisioning. Prints the result. */
import { NodeCrypto } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { type GrantRegistration, Grants } from "../../../src/services/Grants.ts"

interface Task {
  readonly connection: {
    readonly host: string
    readonly port: number
    readonly username: string
    readonly password?: string
    readonly database: string
    readonly applicationName: string
  }
  readonly registration: Omit<GrantRegistration, "expires_at">
}

const { connection, registration } = JSON.parse(process.env["TASK"]!) as Task
const { password, ...rest } = connection

const Services = Grants.layer.pipe(
  Layer.provide(PgClient.layer({
    ...rest,
    ...password === undefined ? {} : { password: Redacted.make(password) },
    maxConnections: 1
  })),
  Layer.provide([NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom])
)

const outcome = await Effect.runPromise(
  Grants.use((grants) => grants.register({ ...registration, expires_at: DateTime.makeUnsafe("2100-01-01T00:00:00Z") }))
    .pipe(
      Effect.match({
        onSuccess: ({ revoked_at }) => revoked_at === null ? "live" : "revoked",
        onFailure: ({ _tag }) => _tag
      }),
      Effect.provide(Services)
    )
)
process.stdout.write(`${outcome}\n`)
