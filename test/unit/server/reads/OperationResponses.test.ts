/**
 * The responses of the operations endpoints have exactly the headers of the contract, in a fixed order, and the bodies that
 * its schemas encode. The tests read the header lines of a gateway.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { OperationList } from "../../../../src/api/OperationsApi.ts"
import { Operation } from "../../../../src/domain/Operation.ts"
import { fixedId, fixedToken as token, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"

const at = DateTime.makeUnsafe(1_769_860_800_123)
const operation = operationWith({ created_at: at, updated_at: at })
const settled = operationWith({ state: "succeeded", terminal: true, completed_at: at, under_review: true, revision: 3 })
const target = `/v1/operations/${fixedId}`

/** The header lines of a response, without those of the listener and of every response. */
const linesOf = (headerLines: ReadonlyArray<readonly [string, string]>) =>
  headerLines.slice(0, headerLines.findIndex(([name]) => name === "content-security-policy"))

const revalidated = [["cache-control", "private, no-cache"], ["vary", "Accept, Authorization"]]
/** Of responses that `Prefer: wait` may delay. */
const awaitable = [["cache-control", "private, no-cache"], ["vary", "Accept, Authorization, Prefer"]]
const json = (
  text: string
) => [["content-type", "application/json"], ["content-length", String(Buffer.byteLength(text))]]

describe("The response of a read", () => {
  it.live("has the headers of a pending operation in a fixed order, and 304 leaves out those of the body", () =>
    withServices({ find: () => Effect.succeed(operation) }, ({ send }) =>
      Effect.gen(function*() {
        const body = JSON.stringify(Schema.encodeSync(Operation)(operation))
        const metadata = [["etag", "\"1-1\""], ["retry-after", "300"], ...awaitable]
        for (const method of ["GET", "HEAD"]) {
          const fresh = yield* send(target, { token, method })
          assert.deepStrictEqual([fresh.status, linesOf(fresh.headerLines)], [200, [...json(body), ...metadata]])
          assert.strictEqual(fresh.text, method === "GET" ? body : "")
          const known = yield* send(target, { token, method, headers: { "if-none-match": "\"1-1\"" } })
          assert.deepStrictEqual([known.status, linesOf(known.headerLines), known.text], [304, metadata, ""])
        }
      })))

  it.live("of a final state has no Retry-After, and a review changes its entity tag", () =>
    withServices({ find: () => Effect.succeed(settled) }, ({ send }) =>
      Effect.gen(function*() {
        const { headerLines, text } = yield* send(target, { token })
        assert.deepStrictEqual<unknown>(linesOf(headerLines), [
          ...json(text),
          ["etag", "\"1-3-review\""],
          ...awaitable
        ])
      })))
})

describe("The response of a list", () => {
  it.live("has the headers of a list in a fixed order", () =>
    withServices({
      list: () => Effect.succeed({ operations: [operation, settled], next: { created_at: at, id: fixedId } })
    }, ({ send }) =>
      Effect.gen(function*() {
        const { headerLines, text } = yield* send("/v1/operations", { token })
        const { next_page_token } = JSON.parse(text) as { readonly next_page_token: string }
        const body = Schema.encodeSync(OperationList)({ operations: [operation, settled], next_page_token })
        assert.strictEqual(text, JSON.stringify(body))
        assert.match(next_page_token, /^[\w-]+$/)
        assert.deepStrictEqual<unknown>(linesOf(headerLines), [...json(text), ...revalidated])
      })))
})
