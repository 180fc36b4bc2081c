/**
 * The standing of a grant decides whether it permits a read, and why not. The tests try all 32 standings, the instants
 * around expiry, and identifiers at their limits.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import {
  ClientId,
  type Grant,
  GrantId,
  type GrantStanding,
  operationsRead,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  refusal,
  ResourceOwner,
  Scope,
  standingAt
} from "../../../src/domain/Grant.ts"

const booleans = [false, true]

/** All 32 of them. */
const standings: ReadonlyArray<GrantStanding> = booleans.flatMap((revoked) =>
  booleans.flatMap((expired) =>
    booleans.flatMap((client_active) =>
      booleans.flatMap((scope_granted) =>
        booleans.map((provider_connected) => ({ revoked, expired, client_active, scope_granted, provider_connected }))
      )
    )
  )
)

/** The checks in the order of the specification and the design: grant, client, scope, provider. */
const checks: ReadonlyArray<readonly [fails: (standing: GrantStanding) => boolean, error: object]> = [
  [(standing) => standing.revoked, { _tag: "GrantRevoked", reason: "revoked" }],
  [(standing) => standing.expired, { _tag: "GrantRevoked", reason: "expired" }],
  [(standing) => !standing.client_active, { _tag: "ClientInactive" }],
  [(standing) => !standing.scope_granted, { _tag: "InsufficientScope", required: "operations:read" }],
  [(standing) => !standing.provider_connected, { _tag: "ProviderDisconnected" }]
]

describe("the refusal of a grant", () => {
  for (const standing of standings) {
    const expected = checks.find(([fails]) => fails(standing))?.[1] ?? null
    const flags = Object.entries(standing).map(([name, value]) => `${value ? "" : "not "}${name}`).join(", ")
    it(`is ${expected === null ? "none" : JSON.stringify(expected)} when ${flags}`, () => {
      const actual = refusal(standing, operationsRead)
      assert.deepStrictEqual(actual === null ? null : { ...actual }, expected)
    })
  }
})

const expiry = Date.UTC(2026, 0, 1)

const grant: Grant = {
  grant_id: GrantId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"),
  resource_owner: ResourceOwner.make("owner"),
  subject: PairwiseSubject.make("subject"),
  client_id: ClientId.make("client"),
  client_active: true,
  provider_connection_id: ProviderConnectionId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e90"),
  provider: ProviderName.make("bank"),
  provider_connected: true,
  scopes: [operationsRead, Scope.make("payments:write")],
  created_at: DateTime.makeUnsafe(0),
  expires_at: DateTime.makeUnsafe(expiry),
  revoked_at: null
}

const standing = (change: Partial<Grant>, now = expiry - 1, scope = operationsRead) =>
  standingAt({ ...grant, ...change }, scope, DateTime.makeUnsafe(now))

describe("the standing of a grant", () => {
  const good: GrantStanding = {
    revoked: false,
    expired: false,
    client_active: true,
    scope_granted: true,
    provider_connected: true
  }

  it("is good until the last millisecond before expires_at", () => {
    assert.deepStrictEqual(standing({}, expiry - 1), good)
    assert.deepStrictEqual(standing({}, expiry), { ...good, expired: true })
    assert.deepStrictEqual(standing({}, expiry + 1), { ...good, expired: true })
  })

  it("stays revoked for any time of the revocation", () => {
    for (const revoked_at of [0, expiry - 1, expiry + 86_400_000]) {
      assert.deepStrictEqual(standing({ revoked_at: DateTime.makeUnsafe(revoked_at) }), { ...good, revoked: true })
    }
  })

  it("follows the client and the provider connection", () => {
    assert.deepStrictEqual(standing({ client_active: false }), { ...good, client_active: false })
    assert.deepStrictEqual(standing({ provider_connected: false }), { ...good, provider_connected: false })
  })

  it("has a scope only when exactly that scope was granted", () => {
    for (const scopes of [[], ["operations"], ["operations:rea"], ["operations:read2"], ["Operations:Read"], ["*"]]) {
      assert.deepStrictEqual(standing({ scopes: scopes.map((scope) => Scope.make(scope)) }), {
        ...good,
        scope_granted: false
      })
    }
  })
})

describe("an identifier of a grant", () => {
  const identifiers = { ResourceOwner, PairwiseSubject, ClientId, ProviderName }
  for (const [name, schema] of Object.entries(identifiers)) {
    it(`${name} has 1 to 255 visible ASCII characters`, () => {
      const is = Schema.is(schema)
      for (const value of ["!", "~", "https://client.example/a?b=c#d", "x".repeat(255)]) assert.isTrue(is(value), value)
      for (const value of ["", " ", "a b", "a\n", "\x7f", "é", "x".repeat(256)]) assert.isFalse(is(value), value)
    })
  }

  it("Scope is a scope token of RFC 6749, section 3.3", () => {
    const is = Schema.is(Scope)
    for (let code = 0; code < 0x100; code++) {
      const allowed = code === 0x21 || (code >= 0x23 && code <= 0x5b) || (code >= 0x5d && code <= 0x7e)
      assert.strictEqual(is(String.fromCodePoint(code)), allowed, `U+${code.toString(16)}`)
    }
  })
})
