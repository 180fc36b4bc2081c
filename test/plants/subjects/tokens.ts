/** Mistakes in tokens and DPoP proofs: only the holder of a token for this gateway is let in, and a proof counts once. */
import { type Plant, postgres, system, unit } from "../Plant.ts"

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
  {
    rule: "a malformed claim refuses the credential, and is no defect",
    file: "src/domain/Grant.ts",
    from: "SchemaError: () => Effect.fail(new InvalidCredential()),",
    to: "SchemaError: (error) => Effect.die(error),",
    tests: [unit("domain/ExternalGrant")]
  },
  {
    rule: "limits that cannot be enforced refuse the credential",
    file: "src/domain/Grant.ts",
    from: "InvalidAuthorizationDetails: ({ message }) => Effect.fail(new InvalidCredential({ reason: message }))",
    to: "InvalidAuthorizationDetails: (error) => Effect.die(error)",
    tests: [unit("domain/ExternalGrant", "limits of the credential")]
  },
  {
    rule: "the limits in a token are those of its credential",
    file: verifier,
    from: "authorization_details: verified.claims[\"authorization_details\"]",
    to: "",
    tests: [unit("services/verification/GrantProvisioning", "limits of a token")]
  },
  {
    rule: "a token is only good for an audience of the gateway",
    file: claims,
    from: ".some((accepted) => named.includes(accepted))",
    to: ".some((accepted) => named.some((name) => name.startsWith(accepted)))",
    tests: [unit("oauth/Claims"), unit("oauth/Introspection")]
  },
  {
    rule: "an introspected token never names another issuer",
    file: claims,
    from: "  if (iss !== undefined && iss !== rules.issuer) return null\n",
    to: "",
    tests: [unit("oauth/Introspection")]
  },
  {
    rule: "a token is never accepted after its expiry and the clock tolerance",
    file: claims,
    from: "now < expires_at + clockTolerance",
    to: "now <= expires_at + 2 * clockTolerance",
    tests: [unit("oauth/TokenCache"), unit("oauth/Introspection"), unit("oauth/Claims")]
  },
  {
    rule: "a confirmation that the gateway cannot check always refuses",
    file: claims,
    from: "(Confirmations, { onExcessProperty: \"error\" })",
    to: "(Confirmations)",
    tests: [unit("oauth/Claims")]
  },
  {
    rule: "a confirmation without a member never counts as none",
    file: claims,
    from: "return confirmation.jkt === null && confirmation.x5t === null ? null : confirmation",
    to: "return confirmation",
    tests: [unit("oauth/Claims")]
  },
  {
    rule: "only a token of type at+jwt is an access token",
    file: jwt,
    from: "    if (typeof typ !== \"string\" || !/^(?:application\\/)?at\\+jwt$/i.test(typ)) return null\n",
    to: "",
    tests: [unit("oauth/JwtAccessToken")]
  },
  {
    rule: "a critical extension always refuses a token",
    file: jwt,
    from: "!algorithms.includes(alg) || crit !== undefined) return null",
    to: "!algorithms.includes(alg)) return null",
    tests: [unit("oauth/JwtAccessToken")]
  },
  {
    rule: "a cached token is checked against the clock at each use",
    file: cache,
    from: "isTimely(token, settings, now / 1000) ? Effect.succeed(token)",
    to: "now > 0 ? Effect.succeed(token)",
    tests: [unit("oauth/TokenCache")]
  },
  {
    rule: "a cached token is good only for its resource",
    file: cache,
    from: "resource === null ? digest : `${digest} ${resource}`",
    to: "digest",
    tests: [unit("oauth/TokenCache")]
  },
  {
    rule: "a failed verification is never cached",
    file: cache,
    from: "Exit.isSuccess(exit) ? timeToLive(longest, exit.value) : 0",
    to: "Exit.isSuccess(exit) ? timeToLive(longest, exit.value) : longest",
    tests: [unit("oauth/TokenCache")]
  },
  {
    rule: "an introspected token is good only when active is true",
    file: introspection,
    from: "answer[\"active\"] === true && isAccessToken(answer)",
    to: "isAccessToken(answer)",
    tests: [unit("oauth/Introspection")]
  },
  {
    rule: "an answer that does not say whether a token is active never refuses the token",
    file: introspection,
    from: "if (typeof answer[\"active\"] === \"boolean\") return answer",
    to: "if (answer[\"active\"] !== undefined) return answer",
    tests: [unit("oauth/Introspection")]
  },
  {
    rule: "a refresh token is never an access token",
    file: introspection,
    from: "answer[\"active\"] === true && isAccessToken(answer)",
    to: "answer[\"active\"] === true",
    tests: [unit("oauth/Introspection")]
  },
  {
    rule: "a key-bound token is never accepted as a bearer token",
    file: confirmation,
    from: "verifyDpopProof === null || credential.scheme !== \"DPoP\" ? invalid",
    to: "verifyDpopProof === null || credential.proof === null ? invalid",
    tests: [unit("oauth/Confirmation")]
  },
  {
    rule: "a token that is bound to key and certificate needs both",
    file: confirmation,
    from: "if (x5t !== null && x5t !== credential.certificate) return invalid",
    to: "if (x5t !== null && jkt === null && x5t !== credential.certificate) return invalid",
    tests: [unit("oauth/Confirmation")]
  },
  {
    rule: "where a confirmation is required no plain bearer token is accepted",
    file: confirmation,
    from: "return x5t === null && senderConstrained === \"required\" ? invalid",
    to: "return x5t === \"\" && senderConstrained === \"required\" ? invalid",
    tests: [unit("oauth/Confirmation")]
  },
  {
    rule: "a DPoP proof is only for the token that it names",
    file: proof,
    from: "  if (claims[\"ath\"] !== ath) return yield* refuse(\"is for another token\")\n",
    to:
      "  if (claims[\"ath\"] !== undefined && claims[\"ath\"] !== ath) return yield* refuse(\"is for another token\")\n",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "a DPoP proof is only for its method",
    file: proof,
    from: "  if (htm !== credential.method) return yield* refuse(\"is for another method\")\n",
    to: "",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "a DPoP proof is only for its URL",
    file: proof,
    from: "if (target === null || target !== normalizeTargetUri(credential.url)) return",
    to: "if (target === null || !credential.url.startsWith(target)) return",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "an old DPoP proof is never accepted",
    file: proof,
    from: "    if (iat < now - maxAge - tolerance) return yield* refuse(\"is too old\")\n",
    to: "",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "a DPoP proof is remembered for as long as it is accepted",
    file: proof,
    from: "DateTime.makeUnsafe(Math.ceil((iat + maxAge + tolerance) * 1000))",
    to: "DateTime.makeUnsafe(Math.ceil((iat + maxAge) * 1000))",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "a DPoP proof is only of the key that the token is bound to",
    file: proof,
    from: "  if (thumbprint !== jkt) return yield* refuse(\"is of another key than the token\")\n",
    to: "  if (thumbprint === null) return yield* refuse(\"is of another key than the token\")\n",
    tests: [unit("oauth/DpopProof")]
  },
  {
    rule: "a nonce is good for two minutes at most",
    file: "src/oauth/DpopNonces.ts",
    from: "if (derived.minute === minute) return Effect.succeed(derived)",
    to: "if (derived.minute <= minute) return Effect.succeed(derived)",
    tests: [unit("oauth/DpopNonces")]
  },
  {
    rule: "a private key is never taken as a public one",
    file: "src/oauth/PublicKey.ts",
    from: "if (!isJsonObject(jwk) || privateMembers.some((member) => member in jwk)) return false",
    to: "if (!isJsonObject(jwk)) return false",
    tests: [unit("oauth/PublicKey"), unit("oauth/DpopProofForm")]
  },
  {
    rule: "a DPoP proof is accepted at most once, by all processes together",
    file: replay,
    from: "ON CONFLICT DO NOTHING RETURNING true`",
    to: "ON CONFLICT (digest) DO UPDATE SET expires_at = excluded.expires_at RETURNING true`",
    tests: [postgres("services/verification/ProofReplay")]
  },
  {
    rule: "a use of a DPoP proof is forgotten only after its expiry",
    file: replay,
    from: "WHERE expires_at < now() - make_interval(secs => $1)",
    to: "WHERE expires_at < now() + make_interval(secs => $1)",
    tests: [postgres("services/verification/ProofReplay")]
  },
  {
    rule: "a DPoP proof of one key never uses up that of another",
    file: replay,
    from: "`${jkt.length}:${jkt}${jti}`",
    to: "jti",
    tests: [postgres("services/verification/ProofReplay")]
  },
  {
    rule: "a token of an unknown issuer is sent to no server",
    file: verifier,
    from: "return claimed === null ? introspected : issuers.get(claimed)",
    to: "return (claimed === null ? undefined : issuers.get(claimed)) ?? introspected",
    tests: [system("authorization/SeveralIssuers", "are asked only about their own tokens")]
  },
  {
    rule: "a grant is registered only for a sender that was checked",
    file: verifier,
    from: "    yield* sender.check(verified, credential)\n    yield* issuer.register(verified, identity)\n",
    to: "    yield* issuer.register(verified, identity)\n    yield* sender.check(verified, credential)\n",
    tests: [unit("services/verification/GrantProvisioning")]
  },
  {
    rule: "the prefix of an issuer always begins the ids of its clients",
    file: verifier,
    from: "gatewayClientId(clientPrefix, IssuerClientId.make(verified.client_id))",
    to:
      "gatewayClientId(verified.client_id.startsWith(clientPrefix) ? \"\" : clientPrefix, IssuerClientId.make(verified.client_id))",
    tests: [unit("services/verification/GrantProvisioning")]
  },
  {
    rule: "a token that contradicts its grant is never taken for a registered one",
    file: provisioning,
    from: "[id, resource_owner, provider, ...scopes.toSorted()].join(\" \")",
    to: "[id, ...scopes.toSorted()].join(\" \")",
    tests: [unit("services/verification/GrantProvisioning")]
  },
  {
    rule: "the time of a grant is never later than its token says",
    file: provisioning,
    from: "DateTime.min(DateTime.makeUnsafe(issued_at * 1000), now)",
    to: "DateTime.max(DateTime.makeUnsafe(issued_at * 1000), now)",
    tests: [unit("services/verification/GrantProvisioning")]
  }
]
