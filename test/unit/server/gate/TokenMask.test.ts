/** A logged path is bounded, and shows no token. The tests send long paths over a socket. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { maskTokens } from "../../../../src/server/gate/TokenMask.ts"
import { Gateway, memoryGateway } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"

const ours = fc.stringMatching(/^fingw_[0-9A-Za-z]{49}$/)
const jwt = fc.stringMatching(/^eyJ[\w-]{20,90}\.eyJ[\w-]{20,90}\.[\w-]{20,90}$/)

/** The text with some characters percent-encoded, `times` times over. */
const encoded = (text: string, which: ReadonlyArray<boolean>, times: number): string =>
  Array.from(text, (character, at) =>
    which[at % which.length] === true
      ? `%${"25".repeat(times - 1)}${character.charCodeAt(0).toString(16)}`
      : character).join("")

describe("A path in a log line", () => {
  const token = fc.oneof(ours, jwt)

  it("shows nothing of a token: whole or cut off, encoded or not, anywhere", () => {
    fc.assert(
      fc.property(
        token,
        fc.nat(),
        fc.array(fc.boolean(), { minLength: 1, maxLength: 70 }),
        fc.integer({ min: 1, max: 3 }),
        fc.constantFrom("/", "/v1/operations/", "/x/y", "/v1/operations?", "/?token=", "/%2f"),
        fc.constantFrom("", "/", "/more", "?x=1"),
        (secret, length, which, times, before, after) => {
          const part = secret.slice(0, 12 + length % secret.length)
          const shown = maskTokens(before + encoded(part, which, times) + after)
          let plain = shown
          for (let round = 0; round < 4; round++) {
            plain = plain.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number(`0x${hex}`)))
          }
          const start = secret.startsWith("fingw_") ? 6 : 3
          assert.notInclude(plain, part.slice(start, start + 6))
        }
      )
    )
  })

  it("is unchanged if it contains no token", () => {
    for (
      const path of ["/", "/v1/operations", "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f", "/healthz/", "/%zz"]
    ) {
      assert.strictEqual(maskTokens(path), path)
    }
  })

  it("shows the kind of the token, and the text around it", () => {
    assert.strictEqual(maskTokens(`/v1/operations/fingw_${"a".repeat(49)}/x`), "/v1/operations/fingw_…/x")
    assert.strictEqual(maskTokens("/v1/xeyJhbGciOiJ9.eyJzdWIiOiJ9.c2ln"), "/v1/x…")
  })

  it("is cut", () => {
    assert.strictEqual(maskTokens(`/${"a".repeat(20_000)}`), `/${"a".repeat(255)}…`)
  })
})

layer(memoryGateway(), { excludeTestServices: true })("The logged path of a request", (it) => {
  it.effect("is cut, for any content and any length", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const { lines } = yield* Observer
      const connection = yield* wire
      for (const part of ["eyJ", "a", "fingw_", "%65yJ", "eyJ.", "."]) {
        for (const length of [100, 8000, 15_000]) {
          connection.send(`GET /${part.repeat(length / part.length)} HTTP/1.1\r\nHost: gateway.test\r\n\r\n`)
          const answer = yield* Effect.promise(() => connection.next())
          assert.strictEqual(answer?.status, length > 8192 ? 414 : 404)
        }
      }
      const paths = lines.map(({ annotations }) => annotations["path"]).filter((path) => typeof path === "string")
      assert.strictEqual(paths.length, 18)
      for (const path of paths) assert.isAtMost(path.length, 257)
      for (const { text } of lines) assert.notMatch(text, /eyJ/)
    }))
})
