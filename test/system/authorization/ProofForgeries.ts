/**
 * DPoP proofs that come close to good ones, beside a token that is good.
 */
import * as fc from "fast-check"
import { keyFor, type Members, publicPart } from "../../fixtures/authorization/Keys.ts"
import { makeProof, now, type ProofRequest, sha256 } from "../../fixtures/authorization/Proofs.ts"
import { edits, type Materials, type Mutation, mutation } from "./Variants.ts"

const proofFor = ({ agentKey, bound, url }: Materials, request: Partial<ProofRequest> = {}): string =>
  makeProof({ key: agentKey, token: bound, url, ...request })

const attempt = (kind: string, note: unknown, make: (materials: Materials) => string | null): Mutation =>
  mutation(`proof: ${kind}`, note, (materials) => ({ scheme: "DPoP", token: materials.bound, proof: make(materials) }))

const edited: fc.Arbitrary<Mutation> = edits.map(({ apply, kind, note }) =>
  attempt(kind, note, (materials) => apply(proofFor(materials)))
)

const noText = fc.oneof(
  fc.constant(undefined),
  fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "string")
)

const offset = (from: number, to: number) => fc.integer({ min: from, max: to }).map((seconds) => now() + seconds)

type Wrong = readonly [kind: string, claim: string, values: (materials: Materials) => fc.Arbitrary<unknown>]

/** What is wrong with a claim, one claim at a time. */
const wrongs: ReadonlyArray<Wrong> = [
  ["without an identifier", "jti", () => noText],
  ["with an identifier of no length, or of too much", "jti", () => fc.constantFrom("", "x".repeat(257))],
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
    "made at no time",
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
  ["not yet good", "nbf", () => offset(60, 1e9)]
]

/** The same to whoever normalizes URLs as browsers do. */
const sameUrl = (one: string, other: string) => URL.canParse(one) && new URL(one).href === new URL(other).href

const misstated = (materials: Materials): fc.Arbitrary<Mutation> =>
  fc.oneof(
    ...wrongs.map(([kind, claim, values]) =>
      values(materials).map((value) =>
        attempt(kind, { claim, value }, () => proofFor(materials, { claims: { [claim]: value } }))
      )
    )
  )

type WrongHeader = readonly [kind: string, header: (materials: Materials) => Members]

const wrongHeaders: ReadonlyArray<WrongHeader> = [
  ...[undefined, "JWT", "at+jwt", "dpop", "dpop+jwt2", "", 1, null].map((
    typ
  ): WrongHeader => ["of another type", () => ({ typ })]),
  ...["none", "NONE", "HS256", "RS256", "ES384", "EdDSA", "PS256", "", undefined, 1]
    .map((alg): WrongHeader => ["of an algorithm that is another", () => ({ alg })]),
  ...[["exp"], [], null].map((crit): WrongHeader => ["with an extension", () => ({ crit })]),
  ...[undefined, null, "key", [], {}, { kty: "EC" }, { kty: "oct", k: "AAAA" }]
    .map((jwk): WrongHeader => ["without its key", () => ({ jwk })]),
  ["with the private key", ({ agentKey }) => ({ jwk: agentKey })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "ES256")) })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "EdDSA")) })],
  ["with another key", ({ strangers }) => ({ jwk: publicPart(keyFor(strangers, "PS256")) })],
  ["without its key", ({ agentKey: { kid } }) => ({ jwk: undefined, kid })],
  ["without its key", () => ({ jwk: undefined, jku: "https://evil.test/jwks" })]
]

const mislabelled: fc.Arbitrary<Mutation> = fc.constantFrom(...wrongHeaders).map(([kind, header]) =>
  attempt(kind, header.toString(), (materials) => proofFor(materials, { header: header(materials) }))
)

const others: ReadonlyArray<readonly [kind: string, make: (materials: Materials) => string | null]> = [
  ["missing", () => null],
  ["missing", () => ""],
  ["an access token", ({ bound }) => bound],
  ["of somebody else", (materials) => proofFor(materials, { key: keyFor(materials.strangers, "ES256") })],
  ["of somebody else, with the key's name", (materials) => {
    const { kid: _, ...jwk } = publicPart(materials.agentKey)
    return proofFor(materials, { key: keyFor(materials.strangers, "ES256"), header: { jwk } })
  }],
  ["for another token", (materials) => proofFor(materials, { token: materials.tokens[0] })],
  ["several at once", (materials) => `${proofFor(materials)}, ${proofFor(materials)}`],
  ["several at once", (materials) => `${proofFor(materials)} ${proofFor(materials)}`],
  ["too long", (materials) => proofFor(materials, { claims: { padding: "x".repeat(8192) } })]
]

const other: fc.Arbitrary<Mutation> = fc.constantFrom(...others).map(([kind, make]) => attempt(kind, "", make))

/** Proofs none of which is good. */
export const proofMutations = (materials: Materials): fc.Arbitrary<Mutation> =>
  fc.oneof(
    { weight: 10, arbitrary: edited },
    { weight: 8, arbitrary: misstated(materials) },
    { weight: 4, arbitrary: mislabelled },
    { weight: 2, arbitrary: other }
  )
