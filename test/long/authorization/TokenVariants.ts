/** Variants of access tokens: none is valid, and each differs little from a valid one. */
import * as fc from "fast-check"
import { decodeJwt } from "jose"
import { createHmac } from "node:crypto"
import {
  type Algorithm,
  encode,
  keyFor,
  makeProof,
  type Members,
  now,
  publicPart,
  signBytes,
  signJwt,
  signToken
} from "../../fixtures/authorization/Keys.ts"
import {
  type Attempt,
  bearer,
  edits,
  type Materials,
  type Variant,
  variant
} from "../../fixtures/authorization/Variants.ts"

const algorithms = ["ES256", "EdDSA", "PS256"] as const satisfies ReadonlyArray<Algorithm>

/** Index of one of the good tokens. */
const whichToken = fc.nat(2)

/** The same for variants that must be signed, which takes thirty times as long with PS256. */
const signed = fc.oneof({ weight: 40, arbitrary: fc.constantFrom(0, 1) }, { weight: 1, arbitrary: fc.constant(2) })

/** The claims of a good token. */
const goodClaims = ({ tokens }: Materials, which: number): Members => decodeJwt(tokens[which]!)

const edited: fc.Arbitrary<Variant> = fc.tuple(whichToken, edits).map(([which, { apply, kind, note }]) =>
  variant(kind, { which, note }, ({ tokens }) => bearer(apply(tokens[which]!)))
)

/** Header, claims and signature, each from one of the good tokens. Tokens of one key have the same header. */
const crossed: fc.Arbitrary<Variant> = fc.tuple(fc.nat(3), fc.nat(3), fc.nat(3))
  .filter(([header, claims, signature]) => header % 3 !== claims % 3 || claims !== signature)
  .map((from) =>
    variant(
      "parts of several tokens",
      from,
      ({ bound, tokens }) => bearer(from.map((index, part) => [...tokens, bound][index]!.split(".")[part]!).join("."))
    )
  )

const absent = Symbol("absent")

/** JSON values that are wrong for a claim. */
const anythingBut = (isGood: (value: unknown) => boolean): fc.Arbitrary<unknown> =>
  fc.oneof(
    fc.constant(absent),
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom<unknown>(null, true, 0, -1, "", " ", [], {}, [""], [null], "null", "undefined", "*", 1e300)
  ).filter((value) => !isGood(value))

/** Values that are not a valid identifier of the gateway (`domain/Grant`). */
const noIdentifier = fc.oneof(
  anythingBut((value) => typeof value === "string" && /^[\x21-\x7e]{1,255}$/.test(value)),
  fc.constantFrom("x".repeat(256), "with space", "caf\u00e9", "\u0000", "a\nb", "\ud83d\ude00")
)

const seconds = (from: number, to: number) => fc.integer({ min: from, max: to }).map((offset) => now() + offset)

interface WrongClaim {
  readonly claim: string
  readonly kind: string
  readonly values: (materials: Materials) => fc.Arbitrary<unknown>
}

const wrongClaim = (claim: string, kind: string, values: WrongClaim["values"]): WrongClaim => ({ claim, kind, values })

const urlsNear = (url: string) =>
  fc.constantFrom(
    `${url}/`,
    `${url}.`,
    url.toUpperCase(),
    url.slice(0, -1),
    `${url}#`,
    `${url}?`,
    ` ${url}`,
    `${url}.evil.test`
  )

/** Wrong values of one claim at a time. `oauth4webapi` checks fewer claims: see the kinds in `Differences.ts`. */
const wrongClaims: ReadonlyArray<WrongClaim> = [
  wrongClaim(
    "iss",
    "another issuer",
    ({ issuer }) => fc.oneof(anythingBut((value) => value === issuer), urlsNear(issuer))
  ),
  wrongClaim("aud", "another audience", ({ audience }) =>
    fc.oneof(
      anythingBut((value) => value === audience || (Array.isArray(value) && value.includes(audience))),
      urlsNear(audience),
      urlsNear(audience).map((near) => [near, "https://other.test"]),
      fc.constant({ [audience]: audience })
    )),
  wrongClaim(
    "exp",
    "expired, or without an expiry",
    () => fc.oneof(anythingBut((value) => typeof value === "number" && value > now()), seconds(-1e9, -60))
  ),
  wrongClaim("nbf", "not yet valid", () =>
    fc.oneof(
      fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "number"),
      seconds(60, 1e9)
    )),
  wrongClaim("iat", "without an issue time", () => anythingBut((value) => typeof value === "number")),
  wrongClaim("iat", "issued in the future", () => seconds(60, 1e9)),
  wrongClaim("jti", "without an identifier", () => anythingBut((value) => typeof value === "string")),
  wrongClaim("sub", "without a subject", () => anythingBut((value) => typeof value === "string")),
  wrongClaim(
    "sub",
    "with a subject that cannot be stored",
    () => noIdentifier.filter((value) => typeof value === "string")
  ),
  wrongClaim("client_id", "without a client", () => anythingBut((value) => typeof value === "string")),
  wrongClaim(
    "client_id",
    "with a client that cannot be stored",
    () => noIdentifier.filter((value) => typeof value === "string")
  ),
  wrongClaim("scope", "with malformed scopes", () =>
    fc.oneof(
      fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "string"),
      fc.constantFrom(
        " ",
        "operations:read ",
        " operations:read",
        "operations:read  a",
        "caf\u00e9",
        "\"",
        "\\",
        "a\tb"
      )
    )),
  wrongClaim("grant_id", "without a valid grant", () => noIdentifier),
  wrongClaim("cnf", "with an invalid confirmation", () =>
    fc.oneof(
      fc.jsonValue({ maxDepth: 1 }).filter((value) => JSON.stringify(value) !== "{}"),
      fc.constantFrom<unknown>({ jkt: null }, { jkt: 1 }, { "x5t#S256": 1 }, { kid: "a" }, { jwk: {} }, {
        jku: "https://a.test"
      })
    )),
  wrongClaim("cnf", "with an empty confirmation", () => fc.constant({}))
]

/** One claim is wrong, but the signature is the authorization server's. */
const misstated = (materials: Materials): fc.Arbitrary<Variant> =>
  fc.oneof(
    ...wrongClaims.map(({ claim, kind, values }) =>
      fc.tuple(signed, values(materials)).map(([which, value]) =>
        variant(kind, { which, claim, value: value === absent ? "(absent)" : value }, () => {
          const { [claim]: _, ...others } = goodClaims(materials, which)
          const claims = value === absent ? others : { ...others, [claim]: value }
          return bearer(signToken(materials.keys, algorithms[which]!, claims))
        })
      )
    )
  )

const wrongHeaders: ReadonlyArray<readonly [kind: string, header: Members]> = [
  ...[undefined, "JWT", "jwt", "at", "at+jwt2", "id+jwt", "logout+jwt", "dpop+jwt", "text/at+jwt", "", 1, null, [
    "at+jwt"
  ]]
    .map((typ) => ["with another type", { typ }] as const),
  ...[["exp"], [], ["b64"], "exp", null].map((crit) =>
    ["with a critical extension", { crit, exp: 1, b64: true }] as const
  ),
  ...["unknown", "", "../../key", 1, null, [], {}].map((kid) => ["with the name of an unknown key", { kid }] as const),
  ...[
    "ES384",
    "ES512",
    "PS384",
    "PS512",
    "RS256",
    "RS512",
    "HS256",
    "none",
    "None",
    "NONE",
    "nOnE",
    "",
    "ES256K",
    undefined,
    1,
    null
  ]
    .map((alg) => ["with another algorithm", { alg }] as const)
]

/** The header is wrong, but the signature is the authorization server's. */
const mislabelled: fc.Arbitrary<Variant> = fc.tuple(signed, fc.constantFrom(...wrongHeaders)).map((
  [which, [kind, header]]
) =>
  variant(
    kind,
    { which, header },
    (materials) => bearer(signToken(materials.keys, algorithms[which]!, goodClaims(materials, which), header))
  )
)

/** The order of the curve P-256: signatures are calculated modulo this number. */
const order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

const zero = "0".repeat(64)

const signatures = [
  zero + zero,
  order + order,
  zero + order,
  `${zero.slice(1)}1${zero.slice(1)}1`,
  "",
  "00",
  "3006020100020100"
]

type Forgery = (materials: Materials, which: number) => string

const headerOf = ({ tokens }: Materials, which: number): Members =>
  JSON.parse(Buffer.from(tokens[which]!.split(".")[0]!, "base64url").toString()) as Members

/** Signed with a public value as the shared secret: the public key, in one of its forms. */
const confused = (form: (key: Members) => string): Forgery => (materials, which) => {
  const own = publicPart(keyFor(materials.keys, algorithms[which]!))
  const input = `${encode({ ...headerOf(materials, which), alg: "HS256" })}.${encode(goodClaims(materials, which))}`
  return `${input}.${createHmac("sha256", form(own)).update(input).digest("base64url")}`
}

/** Signed with a foreign key, under this header. */
const strangely = (header: (key: Members) => Members): Forgery => (materials, which) => {
  const key = keyFor(materials.strangers, algorithms[which]!)
  const own = { ...headerOf(materials, which), ...header({ ...publicPart(key) }) }
  return signJwt(key, algorithms[which]!, own, goodClaims(materials, which))
}

const unsigned = (alg: unknown, signature: (good: string) => string): Forgery => (materials, which) => {
  const [, claims, good] = materials.tokens[which]!.split(".")
  return `${encode({ ...headerOf(materials, which), alg })}.${claims!}.${signature(good!)}`
}

const forgeries: ReadonlyArray<readonly [kind: string, make: Forgery]> = [
  ["signed with a foreign key", strangely(() => ({}))],
  ["signed with a foreign key", strangely(({ kid }) => ({ kid }))],
  ["signed with a foreign key", strangely(() => ({ kid: undefined }))],
  ["signed with a foreign key", strangely((jwk) => ({ jwk }))],
  ["signed with a foreign key", strangely((jwk) => ({ jwk, kid: undefined }))],
  ["signed with a foreign key", strangely(() => ({ jku: "https://evil.test/jwks" }))],
  ["signed with a foreign key", strangely(() => ({ x5u: "https://evil.test/cert", x5c: ["AAAA"], x5t: "AAAA" }))],
  ["signed with a public value", confused((key) => JSON.stringify(key))],
  ["signed with a public value", confused(({ n, x }) => String(n ?? x))],
  ["signed with a public value", confused(() => "")],
  ...["none", "None", "NONE", "nOnE"].flatMap((alg): ReadonlyArray<readonly [string, Forgery]> => [
    ["unsigned", unsigned(alg, () => "")],
    ["unsigned", unsigned(alg, (good) => good)]
  ]),
  ...signatures.map((hex): readonly [string, Forgery] => [
    "with a degenerate signature",
    ({ tokens }) => `${tokens[0].split(".", 2).join(".")}.${Buffer.from(hex, "hex").toString("base64url")}`
  ]),
  ["signed with another algorithm", ({ keys, tokens }, which) => {
    const algorithm = algorithms[(which + 1) % 3]!
    const input = tokens[which]!.split(".", 2).join(".")
    return `${input}.${signBytes(keyFor(keys, algorithm), algorithm, input).toString("base64url")}`
  }]
]

const forged: fc.Arbitrary<Variant> = fc.tuple(signed, fc.constantFrom(...forgeries)).map(([which, [kind, make]]) =>
  variant(kind, { which, make: make.toString() }, (materials) => bearer(make(materials, which)))
)

const presentations: ReadonlyArray<(materials: Materials, proof: (token: string) => string) => Attempt> = [
  ({ bound }) => bearer(bound),
  ({ bound }, proof) => ({ scheme: "Bearer", token: bound, proof: proof(bound) }),
  ({ tokens: [token] }, proof) => ({ scheme: "DPoP", token, proof: proof(token) }),
  ({ tokens: [token] }) => ({ scheme: "DPoP", token, proof: null }),
  ({ tokens: [token] }, proof) => ({ scheme: "Bearer", token, proof: proof(token) }),
  (materials) =>
    bearer(signToken(materials.keys, "ES256", { ...goodClaims(materials, 0), cnf: { "x5t#S256": "A".repeat(43) } }))
]

/** Good tokens, presented against their confirmation. */
const misused: fc.Arbitrary<Variant> = fc.nat(presentations.length - 1).map((index) =>
  variant(
    "presented against its confirmation",
    index,
    (materials) =>
      presentations[index]!(materials, (token) => makeProof({ key: materials.agentKey, token, url: materials.url }))
  )
)

/** Variants of access tokens. None is valid. */
export const tokenVariants = (materials: Materials): fc.Arbitrary<Variant> =>
  fc.oneof(
    { weight: 10, arbitrary: edited },
    { weight: 1, arbitrary: crossed },
    { weight: 8, arbitrary: misstated(materials) },
    { weight: 2, arbitrary: mislabelled },
    { weight: 2, arbitrary: forged },
    { weight: 1, arbitrary: misused }
  )
