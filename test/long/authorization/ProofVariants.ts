/** Variants of DPoP proofs: none is valid, and each differs little from a valid one. The token beside them is good. */
import * as fc from "fast-check"
import {
  keyFor,
  makeProof,
  type Members,
  now,
  type ProofRequest,
  publicPart,
  sha256
} from "../../fixtures/authorization/Keys.ts"
import { edits, type Materials, type Variant, variant } from "../../fixtures/authorization/Variants.ts"

const proofFor = ({ agentKey, bound, url }: Materials, request: Partial<ProofRequest> = {}): string =>
  makeProof({ key: agentKey, token: bound, url, ...request })

const attempt = (kind: string, note: unknown, make: (materials: Materials) => string | null): Variant =>
  variant(
    `DPoP proof: ${kind}`,
    note,
    (materials) => ({ scheme: "DPoP", token: materials.bound, proof: make(materials) })
  )

const edited: fc.Arbitrary<Variant> = edits.map(({ apply, kind, note }) =>
  attempt(kind, note, (materials) => apply(proofFor(materials)))
)

const noText = fc.oneof(
  fc.constant(undefined),
  fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "string")
)

const offset = (from: number, to: number) => fc.integer({ min: from, max: to }).map((seconds) => now() + seconds)

type WrongClaim = readonly [kind: string, claim: string, values: (materials: Materials) => fc.Arbitrary<unknown>]

/** Wrong values of one claim at a time. */
const wrongClaims: ReadonlyArray<WrongClaim> = [
  ["without an identifier", "jti", () => noText],
  ["with an empty or overlong identifier", "jti", () => fc.constantFrom("", "x".repeat(257))],
  [
    "for another method",
    "htm",
    () => fc.oneof(noText, fc.constantFrom("get", "Get", "POST", "HEAD", "", " GET", "GET ", "GET,POST"))
  ],
  ["for another URL", "htu", ({ url }) =>
    fc.oneof(
      noText,
      fc.constantFrom(
        "",
        "/v1/operations",
        `${url}/`,
        `${url}/x`,
        url.replace("https", "http"),
        url.replace("gateway", "gateways"),
        url.replace("gateway.test", "gateway.test:8443"),
        url.replace("gateway.test", "evil.test"),
        url.replace("gateway.test", "gateway.test.evil.test"),
        url.replace("v1", "V1"),
        url.replace("v1", "v2"),
        url.replace("https://", "https:"),
        `https://evil.test/?${url}`,
        `${url}%00`,
        "not a url"
      ).filter((htu) => htu !== url && !sameUrl(htu, url))
    )],
  [
    "without a time",
    "iat",
    () => fc.oneof(fc.constant(undefined), fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "number"))
  ],
  ["made long ago", "iat", () => fc.oneof(offset(-1e9, -330), fc.constantFrom(0, -1))],
  ["made minutes ago", "iat", () => offset(-270, -90)],
  ["made in the future", "iat", () => offset(330, 1e9)],
  ["made in the near future", "iat", () => offset(30, 270)],
  [
    "for another token",
    "ath",
    ({ bound, tokens: [token] }) =>
      fc.oneof(noText, fc.constantFrom("", sha256(token), sha256(`${bound} `), sha256(bound).slice(1), bound))
  ],
  ["expired", "exp", () => offset(-1e9, -60)],
  ["not yet valid", "nbf", () => offset(60, 1e9)]
]

/** Whether browsers normalize both to the same URL. */
const sameUrl = (one: string, other: string) => URL.canParse(one) && new URL(one).href === new URL(other).href

const misstated = (materials: Materials): fc.Arbitrary<Variant> =>
  fc.oneof(
    ...wrongClaims.map(([kind, claim, values]) =>
      values(materials).map((value) =>
        attempt(kind, { claim, value }, () => proofFor(materials, { claims: { [claim]: value } }))
      )
    )
  )

type WrongHeader = readonly [kind: string, header: (materials: Materials) => Members]

const wrongHeaders: ReadonlyArray<WrongHeader> = [
  ...[undefined, "JWT", "at+jwt", "dpop", "dpop+jwt2", "", 1, null].map((
    typ
  ): WrongHeader => ["with another type", () => ({ typ })]),
  ...["none", "NONE", "HS256", "RS256", "ES384", "EdDSA", "PS256", "", undefined, 1]
    .map((alg): WrongHeader => ["with another algorithm", () => ({ alg })]),
  ...[["exp"], [], null].map((crit): WrongHeader => ["with a critical extension", () => ({ crit })]),
  ...[undefined, null, "key", [], {}, { kty: "EC" }, { kty: "oct", k: "AAAA" }]
    .map((jwk): WrongHeader => ["without its key", () => ({ jwk })]),
  ["with the private key", ({ agentKey }) => ({ jwk: agentKey })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "ES256")) })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "EdDSA")) })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "PS256")) })],
  ["without its key", ({ agentKey: { kid } }) => ({ jwk: undefined, kid })],
  ["without its key", () => ({ jwk: undefined, jku: "https://evil.test/jwks" })]
]

const mislabelled: fc.Arbitrary<Variant> = fc.constantFrom(...wrongHeaders).map(([kind, header]) =>
  attempt(kind, header.toString(), (materials) => proofFor(materials, { header: header(materials) }))
)

const others: ReadonlyArray<readonly [kind: string, make: (materials: Materials) => string | null]> = [
  ["missing", () => null],
  ["missing", () => ""],
  ["an access token", ({ bound }) => bound],
  ["signed with a foreign key", (materials) => proofFor(materials, { key: keyFor(materials.strangers, "ES256") })],
  ["signed with a foreign key, under the agent's public key", (materials) => {
    const { kid: _, ...jwk } = publicPart(materials.agentKey)
    return proofFor(materials, { key: keyFor(materials.strangers, "ES256"), header: { jwk } })
  }],
  ["for another token", (materials) => proofFor(materials, { token: materials.tokens[0] })],
  ["several at once", (materials) => `${proofFor(materials)}, ${proofFor(materials)}`],
  ["several at once", (materials) => `${proofFor(materials)} ${proofFor(materials)}`],
  ["too long", (materials) => proofFor(materials, { claims: { padding: "x".repeat(8192) } })]
]

const other: fc.Arbitrary<Variant> = fc.constantFrom(...others).map(([kind, make]) => attempt(kind, "", make))

/** Variants of a DPoP proof. None is valid. */
export const proofVariants = (materials: Materials): fc.Arbitrary<Variant> =>
  fc.oneof(
    { weight: 10, arbitrary: edited },
    { weight: 8, arbitrary: misstated(materials) },
    { weight: 4, arbitrary: mislabelled },
    { weight: 2, arbitrary: other }
  )
