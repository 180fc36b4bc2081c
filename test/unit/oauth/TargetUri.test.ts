/** A target URI has one normal form (RFC 9449 §4.3 and RFC 3986). Tables list spellings and texts that are no URI. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { normalizeTargetUri } from "../../../src/oauth/DpopProof.ts"

describe("A target URI", () => {
  it.each([
    ["https://gateway.test", "https://gateway.test/"],
    ["HTTPS://Gateway.TEST:443/a", "https://gateway.test/a"],
    ["http://gateway.test:80/a", "http://gateway.test/a"],
    ["http://gateway.test:8080/a", "http://gateway.test:8080/a"],
    ["https://gateway.test/a?b=c#d", "https://gateway.test/a"],
    ["https://gateway.test?b=c", "https://gateway.test/"],
    ["https://gateway.test/a/./b/../c", "https://gateway.test/a/c"],
    ["https://gateway.test/a/%2e%2E/c", "https://gateway.test/c"],
    ["https://gateway.test/%7euser%2d%5F%2e", "https://gateway.test/~user-_."],
    ["https://gateway.test/a%2fb%c3%bc", "https://gateway.test/a%2Fb%C3%BC"],
    ["https://[::1]:3000/a", "https://[::1]:3000/a"]
  ])("%s is normalized to %s", (text, expected) => assert.strictEqual(normalizeTargetUri(text), expected))

  it.each([
    "",
    "gateway.test",
    "/v1/operations",
    "https:/gateway.test/",
    "https:gateway.test/",
    "https:///gateway.test/",
    "https://",
    "https://user@gateway.test/",
    "https://user:password@gateway.test/",
    "https://@gateway.test/",
    "ftp://gateway.test/",
    "https://gateway.test\\a",
    "https://gateway.test/a\\b",
    " https://gateway.test/",
    "https://gateway.test/a b",
    "https://gateway.test/a\nb",
    "https://gateway.test/ü",
    "https://gateway.test:99999/"
  ])("%j is not a target URI", (text) => assert.isNull(normalizeTargetUri(text)))

  it("does not change when it is already normal", () => {
    fc.assert(fc.property(fc.webUrl({ withQueryParameters: true, withFragments: true }), (url) => {
      const once = normalizeTargetUri(url)
      assert.strictEqual(once === null ? null : normalizeTargetUri(once), once)
    }))
  })
})
