/** Mistakes in tokens and DPoP proofs: only the holder of a token for this gateway is let in, and a proof counts once. */
import { type Plant, plant, postgres, system, unit } from "../Plant.ts"

const claims = "src/oauth/TokenClaims.ts"
const proof = "src/oauth/DpopProof.ts"
const confirmation = "src/oauth/TokenClaims.ts"
const jwt = "src/oauth/JwtAccessToken.ts"
const cache = "src/oauth/TokenCache.ts"
const introspection = "src/oauth/Introspection.ts"
const verifier = "src/services/verification/OAuthVerifier.ts"
const provisioning = "src/services/verification/GrantProvisioning.ts"
const replay = "src/services/verification/ProofReplay.ts"

export const tokens: ReadonlyArray<Plant> = [
  plant("a malformed claim refuses the credential, and is no defect", "src/domain/Grant.ts")
    .edit("SchemaError: () => Effect.fail(new InvalidCredential()),", "SchemaError: (error) => Effect.die(error),")
    .foundBy(unit("domain/ExternalGrant")),
  plant("limits that cannot be enforced refuse the credential", "src/domain/Grant.ts")
    .edit(
      "InvalidAuthorizationDetails: ({ message }) => Effect.fail(new InvalidCredential({ reason: message }))",
      "InvalidAuthorizationDetails: (error) => Effect.die(error)"
    )
    .foundBy(unit("domain/ExternalGrant", "limits of the credential")),
  plant("the limits in a token are those of its credential", verifier)
    .edit("authorization_details: verified.claims[\"authorization_details\"]", "")
    .foundBy(unit("services/verification/GrantProvisioning", "limits of a token")),
  plant("a token is only good for an audience of the gateway", claims)
    .edit(
      ".some((accepted) => named.includes(accepted))",
      ".some((accepted) => named.some((name) => name.startsWith(accepted)))"
    )
    .foundBy(unit("oauth/Claims"), unit("oauth/Introspection")),
  plant("an introspected token never names another issuer", claims)
    .edit("  if (iss !== undefined && iss !== rules.issuer) return null\n", "")
    .foundBy(unit("oauth/Introspection")),
  plant("a token is never accepted after its expiry and the clock tolerance", claims)
    .edit("now < expires_at + clockTolerance", "now <= expires_at + 2 * clockTolerance")
    .foundBy(unit("oauth/TokenCache"), unit("oauth/Introspection"), unit("oauth/Claims")),
  plant("a confirmation that the gateway cannot check always refuses", claims)
    .edit("(Confirmations, { onExcessProperty: \"error\" })", "(Confirmations)")
    .foundBy(unit("oauth/Claims")),
  plant("a confirmation without a member never counts as none", claims)
    .edit("return confirmation.jkt === null && confirmation.x5t === null ? null : confirmation", "return confirmation")
    .foundBy(unit("oauth/Claims")),
  plant("only a token of type at+jwt is an access token", jwt)
    .edit("    if (typeof typ !== \"string\" || !/^(?:application\\/)?at\\+jwt$/i.test(typ)) return null\n", "")
    .foundBy(unit("oauth/JwtAccessToken")),
  plant("a critical extension always refuses a token", jwt)
    .edit("!algorithms.includes(alg) || crit !== undefined) return null", "!algorithms.includes(alg)) return null")
    .foundBy(unit("oauth/JwtAccessToken")),
  plant("a cached token is checked against the clock at each use", cache)
    .edit("isTimely(token, settings, now / 1000) ? token", "now > 0 ? token")
    .foundBy(unit("oauth/TokenCache")),
  plant("a cached token is good only for its resource", cache)
    .edit("resource === null ? digest : `${digest} ${resource}`", "digest")
    .foundBy(unit("oauth/TokenCache")),
  plant("a cached token is verified again when it expires", cache)
    .edit("Math.min(before + longest, token.expires_at * 1000)", "before + longest")
    .foundBy(unit("oauth/TokenCache", "are not kept beyond the expiry")),
  plant("requests that wait for one introspection are bounded", introspection)
    .edit("limiter(digest).wait(digest, answer)", "answer")
    .foundBy(unit("oauth/IntrospectionCircuit", "simultaneous requests with one token")),
  plant("one token never takes the places of all others", introspection)
    .edit("makeCallLimit({ max, maxOfKey: maxOfToken }, tooMany)", "makeCallLimit({ max }, tooMany)")
    .foundBy(unit("oauth/IntrospectionCircuit", "simultaneous requests with one token")),
  plant("a request that left gives its place of a verification back", "src/oauth/CallLimit.ts")
    .edit("Effect.ensuring(restore(call), Effect.sync(() => change(key, -1)))", "restore(call)")
    .foundBy(unit("oauth/IntrospectionCircuit", "simultaneous requests with one token")),
  plant("requests that wait for one fetch of keys are bounded", "src/oauth/CachedDocument.ts")
    .edit(
      "wait(issuer, Effect.timeoutOption(Deferred.await(ended), left))",
      "Effect.timeoutOption(Deferred.await(ended), left)"
    )
    .foundBy(unit("oauth/KeySet", "256 requests at most")),
  plant("no client takes all slots with fresh DPoP proofs", verifier)
    .edit("limitWrites(client, replay.remember(use))", "replay.remember(use)")
    .foundBy(unit("services/verification/ClientWrites")),
  plant("no client takes all slots with the first tokens of grants", verifier)
    .edit("limitWrites(identity.client_id, provision(token, identity))", "provision(token, identity)")
    .foundBy(unit("services/verification/ClientWrites")),
  plant("the writes of one client never take the places of another", verifier)
    .edit("{ max: Infinity, maxOfKey: maxWritesPerClient }", "{ max: maxWritesPerClient }")
    .foundBy(unit("services/verification/ClientWrites")),
  plant("an introspected token is good only when active is true", introspection)
    .edit("answer[\"active\"] === true && isAccessToken(answer)", "isAccessToken(answer)")
    .foundBy(unit("oauth/Introspection")),
  plant("an answer that does not say whether a token is active never refuses the token", introspection)
    .edit(
      "if (typeof answer[\"active\"] === \"boolean\") return answer",
      "if (answer[\"active\"] !== undefined) return answer"
    )
    .foundBy(unit("oauth/Introspection")),
  plant("a refresh token is never an access token", introspection)
    .edit("answer[\"active\"] === true && isAccessToken(answer)", "answer[\"active\"] === true")
    .foundBy(unit("oauth/Introspection")),
  plant("a key-bound token is never accepted as a bearer token", confirmation)
    .edit(
      "verifyDpopProof === null || credential.scheme !== \"DPoP\" ? invalid",
      "verifyDpopProof === null || credential.proof === null ? invalid"
    )
    .foundBy(unit("oauth/Confirmation")),
  plant("a token that is bound to key and certificate needs both", confirmation)
    .edit(
      "if (x5t !== null && x5t !== credential.certificate) return invalid",
      "if (x5t !== null && jkt === null && x5t !== credential.certificate) return invalid"
    )
    .foundBy(unit("oauth/Confirmation")),
  plant("where a confirmation is required no plain bearer token is accepted", confirmation)
    .edit(
      "return x5t === null && senderConstrained === \"required\" ? invalid",
      "return x5t === \"\" && senderConstrained === \"required\" ? invalid"
    )
    .foundBy(unit("oauth/Confirmation")),
  plant("a DPoP proof is only for the token that it names", proof)
    .edit(
      "  if (claims[\"ath\"] !== ath) return yield* refuse(\"is for another token\")\n",
      "  if (claims[\"ath\"] !== undefined && claims[\"ath\"] !== ath) return yield* refuse(\"is for another token\")\n"
    )
    .foundBy(unit("oauth/DpopProof")),
  plant("a DPoP proof is only for its method", proof)
    .edit("  if (htm !== credential.method) return yield* refuse(\"is for another method\")\n", "")
    .foundBy(unit("oauth/DpopProof")),
  plant("a DPoP proof is only for its URL", proof)
    .edit(
      "if (target === null || target !== normalizeTargetUri(credential.url)) return",
      "if (target === null || !credential.url.startsWith(target)) return"
    )
    .foundBy(unit("oauth/DpopProof")),
  plant("an old DPoP proof is never accepted", proof)
    .edit("    if (iat < now - maxAge - tolerance) return yield* refuse(\"is too old\")\n", "")
    .foundBy(unit("oauth/DpopProof")),
  plant("a DPoP proof is remembered for as long as it is accepted", proof)
    .edit(
      "DateTime.makeUnsafe(Math.ceil((iat + maxAge + tolerance) * 1000))",
      "DateTime.makeUnsafe(Math.ceil((iat + maxAge) * 1000))"
    )
    .foundBy(unit("oauth/DpopProof")),
  plant("a DPoP proof is only of the key that the token is bound to", proof)
    .edit(
      "  if (thumbprint !== jkt) return yield* refuse(\"is of another key than the token\")\n",
      "  if (thumbprint === null) return yield* refuse(\"is of another key than the token\")\n"
    )
    .foundBy(unit("oauth/DpopProof")),
  plant("a nonce is good for two minutes at most", "src/oauth/DpopNonces.ts")
    .edit(
      "if (derived.minute === minute) return Effect.succeed(derived)",
      "if (derived.minute <= minute) return Effect.succeed(derived)"
    )
    .foundBy(unit("oauth/DpopNonces")),
  plant("a private key is never taken as a public one", "src/oauth/PublicKey.ts")
    .edit(
      "if (!isJsonObject(jwk) || privateMembers.some((member) => member in jwk)) return false",
      "if (!isJsonObject(jwk)) return false"
    )
    .foundBy(unit("oauth/PublicKey"), unit("oauth/DpopProofForm")),
  plant("a DPoP proof is accepted at most once, by all processes together", replay)
    .edit(
      "ON CONFLICT DO NOTHING RETURNING true`",
      "ON CONFLICT (digest) DO UPDATE SET expires_at = excluded.expires_at RETURNING true`"
    )
    .foundBy(postgres("services/verification/ProofReplay")),
  plant("a use of a DPoP proof is forgotten only after its expiry", replay)
    .edit(
      "WHERE expires_at < now() - make_interval(secs => $1)",
      "WHERE expires_at < now() + make_interval(secs => $1)"
    )
    .foundBy(postgres("services/verification/ProofReplay")),
  plant("a DPoP proof of one key never uses up that of another", replay)
    .edit("`${jkt.length}:${jkt}${jti}`", "jti")
    .foundBy(postgres("services/verification/ProofReplay")),
  plant("a token of an unknown issuer is sent to no server", verifier)
    .edit(
      "return claimed === null ? introspected : issuers.get(claimed)",
      "return (claimed === null ? undefined : issuers.get(claimed)) ?? introspected"
    )
    .foundBy(system("authorization/SeveralIssuers", "are asked only about their own tokens")),
  plant("a grant is registered only for a sender that was checked", verifier)
    .edit(
      "    yield* sender.check(verified, credential, identity.client_id)\n    yield* issuer.register(verified, identity)\n",
      "    yield* issuer.register(verified, identity)\n    yield* sender.check(verified, credential, identity.client_id)\n"
    )
    .foundBy(unit("services/verification/GrantProvisioning")),
  plant("the prefix of an issuer always begins the ids of its clients", verifier)
    .edit(
      "gatewayClientId(clientPrefix, IssuerClientId.make(verified.client_id))",
      "gatewayClientId(verified.client_id.startsWith(clientPrefix) ? \"\" : clientPrefix, IssuerClientId.make(verified.client_id))"
    )
    .foundBy(unit("services/verification/GrantProvisioning")),
  plant("equal owner names at two issuers are one person only behind one prefix", provisioning)
    .edit("isOwner(owner) ? ownerPrefix + owner : null", "isOwner(owner) ? owner : null")
    .foundBy(
      unit("services/verification/GrantProvisioning", "is of the owner behind the prefix"),
      system("authorization/SeveralIssuers", "only behind one owner prefix")
    ),
  plant("each of several issuers that provision grants has an owner prefix", verifier)
    .edit("ownerPrefixes.length > 1 && ownerPrefixes.includes(undefined)", "false")
    .foundBy(system("authorization/SeveralIssuers", "keep the gateway from starting")),
  plant("no owner prefix begins with another", verifier)
    .edit(" || isAmbiguous([...new Set(ownerPrefixes.map((prefix = \"\") => prefix))])", "")
    .foundBy(system("authorization/SeveralIssuers", "keep the gateway from starting")),
  plant("a token that contradicts its grant is never taken for a registered one", provisioning)
    .edit("[id, resource_owner, provider, ...scopes.toSorted()].join(\" \")", "[id, ...scopes.toSorted()].join(\" \")")
    .foundBy(unit("services/verification/GrantProvisioning")),
  plant("the time of a grant is never later than its token says", provisioning)
    .edit(
      "DateTime.min(DateTime.makeUnsafe(issued_at * 1000), now)",
      "DateTime.max(DateTime.makeUnsafe(issued_at * 1000), now)"
    )
    .foundBy(unit("services/verification/GrantProvisioning")),
  plant("a key that was replaced verifies for ten minutes at most", "src/oauth/CachedDocument.ts")
    .edit("const freshFor = 10 * minute", "const freshFor = 11 * minute")
    .foundBy(unit("oauth/KeySet", "verify for eleven minutes")),
  plant("the age of keys counts by the monotonic clock", "src/oauth/CachedDocument.ts")
    .edit(
      "  Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos),\n  (nanos) => Number(nanos / 1_000_000n)",
      "  Effect.flatMap(Clock.Clock, (clock) => clock.currentTimeMillis),\n  (millis) => millis"
    )
    .foundBy(unit("oauth/KeySet", "while the wall clock steps back"))
]
