/**
 * The settings of an issuer have the defaults of FAPI 2.0 and refuse unsafe values. The tests list good and bad
 * settings.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  type IssuerOptions,
  issuerSettings,
  validateEndpoint,
  validateIssuerSettings
} from "../../../src/oauth/Issuer.ts"
import { audience, issuer } from "../../fixtures/oauth/Issuing.ts"

const faultOf = (changes: Partial<IssuerOptions>) =>
  validateIssuerSettings(issuerSettings({ issuer, audience, ...changes }))

describe("The settings of an issuer", () => {
  it("default to the algorithms of FAPI 2.0, 5 seconds, the claim grant_id, and discovery", () => {
    assert.deepStrictEqual(issuerSettings({ issuer, audience }), {
      issuer,
      audience,
      algorithms: ["ES256", "EdDSA", "Ed25519", "PS256"],
      clockTolerance: 5,
      grantClaim: "grant_id",
      jwksUri: null
    })
    assert.isNull(faultOf({}))
  })

  it.each([
    "https://as.test",
    "https://as.test/",
    "https://as.test:8443/tenant/1",
    "http://127.0.0.1:9000",
    "http://localhost/as",
    "http://[::1]:80"
  ])("accept the issuer %s", (issuer) => assert.isNull(faultOf({ issuer })))

  it.each([
    "",
    "as.test",
    "http://as.test",
    "http://127.0.0.1.as.test",
    "http://localhost.as.test",
    "ftp://localhost",
    "https://as.test?tenant=1",
    "https://as.test?",
    "https://as.test#1",
    "https://as.test/#",
    "https://user@as.test",
    "https://as test",
    "https://ås.test",
    "javascript:alert(1)",
    `https://as.test/${"x".repeat(255)}`
  ])("refuse the issuer %s, in one sentence", (issuer) => {
    assert.match(faultOf({ issuer }) ?? "", /^The issuer ".*" (?:must|is) .*[^.]\.$/)
  })

  it("allow RS256 by opt-in, and never a shared secret or none", () => {
    assert.isNull(faultOf({ algorithms: ["RS256"] }))
    for (const algorithm of ["none", "None", "HS256", "HS384", "HS512", "RS1", "dir", "ML-DSA-44", ""]) {
      assert.include(faultOf({ algorithms: ["ES256", algorithm] }) ?? "", "is not accepted for signatures")
    }
    assert.include(faultOf({ algorithms: [] }) ?? "", "at least one signature algorithm")
  })

  it("limit the clock tolerance to a minute", () => {
    assert.isNull(faultOf({ clockTolerance: "60 seconds" }))
    assert.isNull(faultOf({ clockTolerance: 0 }))
    assert.include(faultOf({ clockTolerance: "61 seconds" }) ?? "", "between 0 and 60 seconds")
    assert.include(faultOf({ clockTolerance: "-1 seconds" }) ?? "", "between 0 and 60 seconds")
    assert.include(faultOf({ clockTolerance: Infinity }) ?? "", "between 0 and 60 seconds")
  })

  it("require an audience and a grant claim", () => {
    assert.include(faultOf({ audience: "" }) ?? "", "audience")
    assert.include(faultOf({ grantClaim: "" }) ?? "", "grant claim")
  })

  it("require the key set URL to follow the rules for issuers, and to be https if the issuer is", () => {
    assert.isNull(faultOf({ jwksUri: "https://keys.test/jwks?p=1" }))
    assert.include(faultOf({ jwksUri: "http://keys.test/jwks" }) ?? "", "must be https")
    assert.include(faultOf({ jwksUri: "http://127.0.0.1/jwks" }) ?? "", "must be https, like its issuer")
    assert.isNull(validateEndpoint("http://127.0.0.1:9000", "http://127.0.0.1:9000/jwks"))
    assert.isNotNull(validateEndpoint("HTTPS://as.test", "http://127.0.0.1:9000/jwks"))
  })
})
