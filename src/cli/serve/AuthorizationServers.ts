/** The verification of credentials for `serve` with authorization servers. */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { AuthorizationDetails } from "../../domain/AuthorizationDetails.ts"
import type { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { OwnVerifier } from "../../node/GatewayParts.ts"
import { readTrustedProxies } from "../../node/http/HttpSettings.ts"
import { Database } from "../../node/postgres/Database.ts"
import { databaseAs } from "../../node/postgres/DatabaseRoles.ts"
import { ProofPool, ProvisioningPool } from "../../node/postgres/Pools.ts"
import { mayProvision } from "../../services/sql/grants/SqlGrants.ts"
import { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import type {
  ForwardedCertificates,
  IntrospectionIssuer,
  IssuersOptions,
  JwtIssuer,
  SenderOptions
} from "../../services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../../services/verification/ProofReplay.ts"
import { CommandFailed } from "../Output.ts"

const timeIn = (unit: "seconds" | "days", minimum: number, maximum: number) =>
  Schema.optionalKey(
    Schema.Number.check(Schema.isBetween({ minimum, maximum })).pipe(
      Schema.decodeTo(Schema.Duration, {
        decode: SchemaGetter.transform((count: number) => Duration.fromInputUnsafe(`${count} ${unit}`)),
        encode: SchemaGetter.forbidden(() => "settings are only read")
      })
    )
  )

const seconds = timeIn("seconds", 0, 86_400)

const optional = Schema.optionalKey(Schema.String)

/** What every issuer has, under the names of `IssuersOptions`, and the other names that OAUTH_ISSUERS has for it. */
const trust = {
  issuer: Schema.String,
  audience: optional,
  grantClaim: optional,
  clockTolerance: seconds,
  clientPrefix: optional,
  grantProvisioning: Schema.optionalKey(
    Schema.Struct({
      ownerClaim: optional,
      ownerPrefix: optional,
      providerClaim: optional,
      grantLifetime: timeIn("days", 1, 3650),
      authorizationDetails: Schema.optionalKey(AuthorizationDetails)
    }).pipe(
      Schema.encodeKeys({
        authorizationDetails: "authorization_details",
        ownerClaim: "owner_claim",
        ownerPrefix: "owner_prefix",
        providerClaim: "provider_claim",
        grantLifetime: "grant_lifetime_days"
      })
    )
  )
}
const names = {
  grantClaim: "grant_claim",
  clockTolerance: "clock_tolerance",
  clientPrefix: "client_prefix",
  grantProvisioning: "first_sight"
} as const

const JwtSettings = Schema.Struct({
  ...trust,
  tokens: Schema.optionalKey(Schema.Literal("jwt")),
  algorithms: Schema.optionalKey(Schema.Array(Schema.String)),
  jwksUri: optional,
  signatureTimeToLive: seconds
}).pipe(Schema.encodeKeys({ ...names, jwksUri: "jwks_uri", signatureTimeToLive: "signature_cache" }))

const IntrospectionSettings = Schema.Struct({
  ...trust,
  tokens: Schema.Literal("introspection"),
  endpoint: optional,
  client_id: Schema.String,
  client_secret: optional,
  client_key: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  timeout: seconds,
  answerTimeToLive: seconds
}).pipe(Schema.encodeKeys({ ...names, answerTimeToLive: "answer_cache" }))

const Settings = Schema.Array(Schema.Union([JwtSettings, IntrospectionSettings]))

const decodeSettings = Schema.decodeUnknownOption(Schema.fromJsonString(Settings), { onExcessProperty: "error" })

const fail = (message: string) => Effect.fail(new CommandFailed({ message }))

/** Reads an environment variable. A blank value counts as absent. */
const read = (name: string) =>
  Effect.map(
    Config.option(Config.Redacted(name)),
    Option.filter((value) => Redacted.value(value).trim() !== "")
  )

const toIntrospectionIssuer = (
  { client_id: clientId, client_key, client_secret, ...settings }: typeof IntrospectionSettings.Type,
  baseUrl: string
): Effect.Effect<IntrospectionIssuer, CommandFailed> =>
  (client_key === undefined) === (client_secret === undefined)
    ? fail(`OAUTH_ISSUERS: introspection at ${settings.issuer} needs exactly one of client_secret and client_key`)
    : Effect.succeed({
      audience: baseUrl,
      ...settings,
      client: client_key === undefined
        ? { method: "client_secret_basic", clientId, secret: Redacted.make(client_secret!) }
        : { method: "private_key_jwt", clientId, key: Redacted.make(client_key) }
    })

const readSenderConstraint = Effect.gen(function*() {
  const text = Option.map(yield* read("SENDER_CONSTRAINED"), Redacted.value)
  if (Option.isNone(text)) return {}
  const { value } = text
  return value === "required" || value === "optional"
    ? { senderConstrained: value } as const
    : yield* fail("SENDER_CONSTRAINED must be required or optional")
})

const readNonceKey = Effect.gen(function*() {
  const text = yield* read("DPOP_NONCE_KEY")
  if (Option.isNone(text)) return {}
  const key = Base64.decode(Redacted.value(text.value))
  return Result.isSuccess(key) && key.success.length === 32
    ? { dpop: { nonceKey: Redacted.make(key.success) } }
    : yield* fail("DPOP_NONCE_KEY must be 32 bytes in Base64")
})

const readCertificates = Effect.fnUntraced(function*(rateLimited: boolean) {
  const header = Option.map(yield* read("CLIENT_CERTIFICATE_HEADER"), Redacted.value)
  const proxies = yield* readTrustedProxies
  // Quotas need the trusted proxies too, to find the addresses of clients.
  if (Option.isNone(header) && (proxies.length === 0 || rateLimited)) return {}
  if (Option.isNone(header) || proxies.length === 0 || !/^[A-Za-z0-9-]+$/.test(header.value)) {
    return yield* fail(
      "set CLIENT_CERTIFICATE_HEADER and TRUSTED_PROXIES together: the header, and the addresses that may send it. "
        + "TRUSTED_PROXIES alone needs RATE_LIMIT"
    )
  }
  const certificates: ForwardedCertificates = { header: header.value.toLowerCase(), proxies }
  return { certificates }
})

const readSender = (rateLimited: boolean): Effect.Effect<
  SenderOptions,
  CommandFailed | InvalidSetting | Config.ConfigError
> =>
  Effect.map(
    Effect.all([readSenderConstraint, readNonceKey, readCertificates(rateLimited)]),
    ([constraint, nonces, certificates]) => ({ ...constraint, ...nonces, ...certificates })
  )

/**
 * The issuers whose tokens are accepted at this base URL; null if there are none. With quotas, TRUSTED_PROXIES needs no
 * CLIENT_CERTIFICATE_HEADER. Fails with one sentence on an invalid configuration. The sentence repeats no value,
 * because some values are secrets.
 */
export const readAuthorizationServers = Effect.fnUntraced(function*(
  baseUrl: string,
  rateLimited = false
): Effect.fn.Return<IssuersOptions | null, CommandFailed | InvalidSetting | Config.ConfigError> {
  const text = yield* read("OAUTH_ISSUERS")
  const sender = yield* readSender(rateLimited)
  if (Option.isNone(text)) {
    return Object.keys(sender).length === 0
      ? null
      : yield* fail("SENDER_CONSTRAINED, DPOP_NONCE_KEY and CLIENT_CERTIFICATE_HEADER need OAUTH_ISSUERS")
  }
  const settings = decodeSettings(Redacted.value(text.value))
  if (Option.isNone(settings)) {
    return yield* fail("OAUTH_ISSUERS must be a JSON array of issuers, as docs/authorization.md describes")
  }
  const issuers = yield* Effect.forEach(
    settings.value,
    (issuer): Effect.Effect<JwtIssuer | IntrospectionIssuer, CommandFailed> =>
      issuer.tokens === "introspection"
        ? toIntrospectionIssuer(issuer, baseUrl)
        : Effect.succeed({ audience: baseUrl, ...issuer })
  )
  return { issuers, ...sender }
})

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
