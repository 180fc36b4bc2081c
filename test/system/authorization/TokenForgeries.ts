/**
 * Access tokens that come close to good ones.
 */
import * as fc from "fast-check"
import { decodeJwt } from "jose"
import { createHmac } from "node:crypto"
import {
  type Algorithm,
  encode,
  keyFor,
  type Members,
  publicPart,
  signBytes,
  signJwt,
  signToken
} from "../../fixtures/authorization/Keys.ts"
import { makeProof, now } from "../../fixtures/authorization/Proofs.ts"
import { type Attempt, bearer, edits, type Materials, type Mutation, mutation } from "./Variants.ts"

const algorithms = ["ES256", "EdDSA", "PS256"] as const satisfies ReadonlyArray<Algorithm>

/** Which of the good tokens. */
const whichToken = fc.nat(2)

/** The same where something is signed, which takes thirty times as long with PS256. */
const signed = fc.oneof({ weight: 40, arbitrary: fc.constantFrom(0, 1) }, { weight: 1, arbitrary: fc.constant(2) })

/** What a good token says, a second after it was issued. */
const goodClaims = ({ tokens }: Materials, which: number): Members => decodeJwt(tokens[which]!)

const edited: fc.Arbitrary<Mutation> = fc.tuple(whichToken, edits).map(([which, { apply, kind, note }]) =>
  mutation(kind, { which, note }, ({ tokens }) => bearer(apply(tokens[which]!)))
)

/** Header, claims and signature, each of one of the good tokens. Those of one key have the same header. */
const crossed: fc.Arbitrary<Mutation> = fc.tuple(fc.nat(3), fc.nat(3), fc.nat(3))
  .filter(([header, claims, signature]) => header % 3 !== claims % 3 || claims !== signature)
  .map((from) =>
    mutation(
      "parts of several tokens",
      from,
      ({ bound, tokens }) => bearer(from.map((index, part) => [...tokens, bound][index]!.split(".")[part]!).join("."))
    )
  )

const absent = Symbol("absent")

/** JSON values that a claim must not have. */
const anythingBut = (isGood: (value: unknown) => boolean): fc.Arbitrary<unknown> =>
  fc.oneof(
    fc.constant(absent),
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom<unknown>(null, true, 0, -1, "", " ", [], {}, [""], [null], "null", "undefined", "*", 1e300)
  ).filter((value) => !isGood(value))

/** Texts that are no identifier of the gateway (`domain/Grant`). */
const noIdentifier = fc.oneof(
  anythingBut((value) => typeof value === "string" && /^[\x21-\x7e]{1,255}$/.test(value)),
  fc.constantFrom("x".repeat(256), "with space", "caf\u00e9", "\u0000", "a\nb", "\ud83d\ude00")
)

const seconds = (from: number, to: number) => fc.integer({ min: from, max: to }).map((offset) => now() + offset)

interface Fault {
  readonly claim: string
  readonly kind: string
  readonly values: (materials: Materials) => fc.Arbitrary<unknown>
}

const fault = (claim: string, kind: string, values: Fault["values"]): Fault => ({ claim, kind, values })

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

/** What is wrong with a claim, one claim at a time. `oauth4webapi` looks at fewer, which the kinds of the test tell. */
const faults: ReadonlyArray<Fault> = [
  fault("iss", "another issuer", ({ issuer }) => fc.oneof(anythingBut((value) => value === issuer), urlsNear(issuer))),
  fault("aud", "another audience", ({ audience }) =>
    fc.oneof(
      anythingBut((value) => value === audience || (Array.isArray(value) && value.includes(audience))),
      urlsNear(audience),
      urlsNear(audience).map((near) => [near, "https://other.test"]),
      fc.constant({ [audience]: audience })
    )),
  fault(
    "exp",
    "expired, or for ever",
    () => fc.oneof(anythingBut((value) => typeof value === "number" && value > now()), seconds(-1e9, -60))
  ),
  fault("nbf", "not yet good", () =>
    fc.oneof(
      fc.jsonValue({ maxDepth: 1 }).filter((value) => typeof value !== "number"),
      seconds(60, 1e9)
    )),
  fault("iat", "issued at no time", () => anythingBut((value) => typeof value === "number")),
  fault("iat", "issued in the future", () => seconds(60, 1e9)),
  fault("jti", "without an identifier", () => anythingBut((value) => typeof value === "string")),
  fault("sub", "of nobody", () => anythingBut((value) => typeof value === "string")),
  fault("sub", "of a subject whose name does not fit", () => noIdentifier.filter((value) => typeof value === "string")),
  fault("client_id", "of no client", () => anythingBut((value) => typeof value === "string")),
  fault(
    "client_id",
    "of a client whose name does not fit",
    () => noIdentifier.filter((value) => typeof value === "string")
  ),
  fault("scope", "with malformed scopes", () =>
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
  fault("grant_id", "of no grant", () => noIdentifier),
  fault("cnf", "bound to what is none", () =>
    fc.oneof(
      fc.jsonValue({ maxDepth: 1 }).filter((value) => JSON.stringify(value) !== "{}"),
      fc.constantFrom<unknown>({ jkt: null }, { jkt: 1 }, { "x5t#S256": 1 }, { kid: "a" }, { jwk: {} }, {
        jku: "https://a.test"
      })
    )),
  fault("cnf", "bound to nothing", () => fc.constant({}))
]

/** A claim is wrong, and the authorization server signed it all the same. */
const misstated = (materials: Materials): fc.Arbitrary<Mutation> =>
  fc.oneof(
    ...faults.map(({ claim, kind, values }) =>
      fc.tuple(signed, values(materials)).map(([which, value]) =>
        mutation(kind, { which, claim, value: value === absent ? "(absent)" : value }, () => {
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
    .map((typ) => ["of another type", { typ }] as const),
  ...[["exp"], [], ["b64"], "exp", null].map((crit) => ["with an extension", { crit, exp: 1, b64: true }] as const),
  ...["unknown", "", "../../key", 1, null, [], {}].map((kid) => ["of a key that there is not", { kid }] as const),
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
    .map((alg) => ["of an algorithm that is another", { alg }] as const)
]

/** The header is wrong, and the authorization server signed it all the same. */
const mislabelled: fc.Arbitrary<Mutation> = fc.tuple(signed, fc.constantFrom(...wrongHeaders)).map((
  [which, [kind, header]]
) =>
  mutation(
    kind,
    { which, header },
    (materials) => bearer(signToken(materials.keys, algorithms[which]!, goodClaims(materials, which), header))
  )
)

/** The order of the curve P-256: what a signature is calculated modulo. */
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

/** Signed with a shared secret that everybody knows: the public key, in one of its forms. */
const confused = (form: (key: Members) => string): Forgery => (materials, which) => {
  const own = publicPart(keyFor(materials.keys, algorithms[which]!))
  const input = `${encode({ ...headerOf(materials, which), alg: "HS256" })}.${encode(goodClaims(materials, which))}`
  return `${input}.${createHmac("sha256", form(own)).update(input).digest("base64url")}`
}

/** Signed with a key of somebody else's, under this header. */
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
  ["signed by a stranger", strangely(() => ({}))],
  ["signed by a stranger", strangely(({ kid }) => ({ kid }))],
  ["signed by a stranger", strangely(() => ({ kid: undefined }))],
  ["signed by a stranger", strangely((jwk) => ({ jwk }))],
  ["signed by a stranger", strangely((jwk) => ({ jwk, kid: undefined }))],
  ["signed by a stranger", strangely(() => ({ jku: "https://evil.test/jwks" }))],
  ["signed by a stranger", strangely(() => ({ x5u: "https://evil.test/cert", x5c: ["AAAA"], x5t: "AAAA" }))],
  ["signed with what is public", confused((key) => JSON.stringify(key))],
  ["signed with what is public", confused(({ n, x }) => String(n ?? x))],
  ["signed with what is public", confused(() => "")],
  ...["none", "None", "NONE", "nOnE"].flatMap((alg): ReadonlyArray<readonly [string, Forgery]> => [
    ["unsigned", unsigned(alg, () => "")],
    ["unsigned", unsigned(alg, (good) => good)]
  ]),
  ...signatures.map((hex): readonly [string, Forgery] => [
    "with a signature that fits anything",
    ({ tokens }) => `${tokens[0].split(".", 2).join(".")}.${Buffer.from(hex, "hex").toString("base64url")}`
  ]),
  ["signed in another way", ({ keys, tokens }, which) => {
    const algorithm = algorithms[(which + 1) % 3]!
    const input = tokens[which]!.split(".", 2).join(".")
    return `${input}.${signBytes(keyFor(keys, algorithm), algorithm, input).toString("base64url")}`
  }]
]

const forged: fc.Arbitrary<Mutation> = fc.tuple(signed, fc.constantFrom(...forgeries)).map(([which, [kind, make]]) =>
  mutation(kind, { which, make: make.toString() }, (materials) => bearer(make(materials, which)))
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

/** Good tokens, presented as if they were bound otherwise than they are. */
const misused: fc.Arbitrary<Mutation> = fc.nat(presentations.length - 1).map((index) =>
  mutation(
    "presented otherwise than it is bound",
    index,
    (materials) =>
      presentations[index]!(materials, (token) => makeProof({ key: materials.agentKey, token, url: materials.url }))
  )
)

/** Access tokens none of which is good. */
export const tokenMutations = (materials: Materials): fc.Arbitrary<Mutation> =>
  fc.oneof(
    { weight: 10, arbitrary: edited },
    { weight: 1, arbitrary: crossed },
    { weight: 8, arbitrary: misstated(materials) },
    { weight: 2, arbitrary: mislabelled },
    { weight: 2, arbitrary: forged },
    { weight: 1, arbitrary: misused }
  )
