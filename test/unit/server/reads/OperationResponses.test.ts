/**
 * The responses of the operations endpoints have exactly the headers of the contract, in a fixed order, and the bodies that
 * its schemas encode. The tests read the header lines of a gateway.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { OperationList } from "../../../../src/api/OperationsApi.ts"
import { encodeOperation, encodeOperations } from "../../../../src/domain/EncodedOperation.ts"
import { Operation } from "../../../../src/domain/Operation.ts"
import { listResponse, readResponse } from "../../../../src/server/reads/OperationResponses.ts"
import { fixedId, fixedToken as token, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"

const at = DateTime.makeUnsafe(1_769_860_800_123)
const operation = operationWith({ created_at: at, updated_at: at })
const settled = operationWith({ state: "succeeded", terminal: true, completed_at: at, under_review: true, revision: 3 })
const failed = operationWith({
  state: "failed",
  terminal: true,
  completed_at: at,
  failure: { code: "declined", message: "\"\\\n\u2028é\u{1f4b6}" }
})
const operations = [operation, settled, failed]
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

  it.effect("has the body that the schema encodes", () =>
    Effect.gen(function*() {
      for (const operation of operations) {
        const { body, status } = readResponse(yield* encodeOperation(operation), undefined, 0)
        assert.deepStrictEqual([status, body], [200, JSON.stringify(Schema.encodeSync(Operation)(operation))])
      }
    }))
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

  it.effect("has the body that the schema encodes, with a token and without one", () =>
    Effect.gen(function*() {
      for (const next_page_token of [null, "MS4x_-"]) {
        for (let count = 0; count <= operations.length; count++) {
          const encoded = yield* encodeOperations(operations.slice(0, count))
          const { body } = listResponse({ page: { ...encoded, next: null }, nextPageToken: next_page_token })
          const list = { operations: encoded.operations, next_page_token }
          assert.strictEqual(body, JSON.stringify(Schema.encodeSync(OperationList)(list)))
        }
      }
    }))
})
