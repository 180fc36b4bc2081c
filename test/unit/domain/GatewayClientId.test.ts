/**
 * One function makes client ids of the gateway from those of an authorization server, and the types keep the two apart.
 */
import { assert, describe, it } from "@effect/vitest"
import { gatewayClientId, isIdPrefix, IssuerClientId } from "../../../src/domain/Grant.ts"

const of = (text: string) => IssuerClientId.make(text)

describe("The client id of the gateway", () => {
  it("is the client id of the authorization server behind the prefix of the issuer, where there is one", () => {
    assert.strictEqual(gatewayClientId("", of("agent")), "agent")
    assert.strictEqual(gatewayClientId("first/", of("agent")), "first/agent")
  })

  it("is null where the result is no client id", () => {
    for (const text of ["", "two words", "Bérénice", "x".repeat(256)]) assert.isNull(gatewayClientId("", of(text)))
    assert.isNull(gatewayClientId("first/", of("x".repeat(250))))
    assert.isNotNull(gatewayClientId("first/", of("x".repeat(249))))
  })
})

describe("A client prefix", () => {
  it("is empty, or a text with which client ids can begin", () => {
    for (const prefix of ["", "first/", "https://as.example#"]) assert.isTrue(isIdPrefix(prefix))
    for (const prefix of [" ", "é/", "x".repeat(256)]) assert.isFalse(isIdPrefix(prefix))
  })
})
