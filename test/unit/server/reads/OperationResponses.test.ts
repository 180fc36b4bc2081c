/**
 * The responses of the operations endpoints have exactly the headers of the contract, and the bodies that
 * its schemas encode. The tests read the header lines of a gateway.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { OperationList } from "../../../../src/api/OperationsApi.ts"
import { Operation } from "../../../../src/domain/Operation.ts"
import { headersOfEveryResponse } from "../../../../src/server/gate/RequestContext.ts"
import { fixedId, fixedToken as token, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"

const at = DateTime.makeUnsafe(1_769_860_800_123)
const operation = operationWith({ created_at: at, updated_at: at })
const settled = operationWith({
  state: "succeeded",
  terminal: true,
  updated_at: at,
  completed_at: at,
  under_review: true,
  revision: 3
})
/** The time of both in their entity tags. */
const time = at.epochMilliseconds.toString(36)
const target = `/v1/operations/${fixedId}`

const ofEveryResponse = new Set([
  "connection",
  "date",
  "keep-alive",
  "x-request-id",
  ...Object.keys(headersOfEveryResponse)
])

/** The header lines of a response, without those of every response that it does not set itself. */
const linesOf = (
  headerLines: ReadonlyArray<readonly [string, string]>
): Array<Array<string>> =>
  headerLines.filter(([name]) => name === "cache-control" || !ofEveryResponse.has(name.toLowerCase())).map((
    line
  ) => [...line])

const revalidated = [["cache-control", "private, no-cache"], ["vary", "Accept, Authorization"]]
/** Of responses that `Prefer: wait` may delay. */
const awaitable = [["cache-control", "private, no-cache"], ["vary", "Accept, Authorization, Prefer"]]
const json = (
  text: string
) => [["content-type", "application/json"], ["content-length", String(Buffer.byteLength(text))]]

describe("The response of a read", () => {
  it.live("has the headers of a pending operation, and 304 leaves out those of the body", () =>
    withServices({ find: () => Effect.succeed(operation) }, ({ send }) =>
      Effect.gen(function*() {
        const body = JSON.stringify(Schema.encodeSync(Operation)(operation))
        const metadata = [["etag", `"1-1-${time}"`], ["retry-after", "300"], ...awaitable]
        for (const method of ["GET", "HEAD"]) {
          const fresh = yield* send(target, { token, method })
          assert.deepStrictEqual([fresh.status, fresh.text], [200, method === "GET" ? body : ""])
          assert.sameDeepMembers(linesOf(fresh.headerLines), [...metadata, ...json(body)])
          const known = yield* send(target, { token, method, headers: { "if-none-match": `"1-1-${time}"` } })
          assert.deepStrictEqual([known.status, known.text], [304, ""])
          assert.sameDeepMembers(linesOf(known.headerLines), metadata)
        }
      })))

  it.live("of a final state has no Retry-After, and a review changes its entity tag", () =>
    withServices({ find: () => Effect.succeed(settled) }, ({ send }) =>
      Effect.gen(function*() {
        const { headerLines, text } = yield* send(target, { token })
        assert.sameDeepMembers<unknown>(linesOf(headerLines), [
          ["etag", `"1-3-${time}-review"`],
          ...awaitable,
          ...json(text)
        ])
      })))

  it.live("has another entity tag where a restored ledger made another change of the same revision", () => {
    let updated_at = at
    return withServices(
      { find: () => Effect.succeed({ ...settled, updated_at }) },
      ({ send }) =>
        Effect.gen(function*() {
          const { headers } = yield* send(target, { token })
          updated_at = DateTime.addDuration(at, "1 minute")
          const again = yield* send(target, { token, headers: { "if-none-match": headers["etag"]! } })
          assert.strictEqual(again.status, 200)
        })
    )
  })
})

describe("The response of limits", () => {
  it.live("has the headers of a list", () =>
    withServices({}, ({ send }) =>
      Effect.gen(function*() {
        const { headerLines, text } = yield* send("/v1/limits", { token })
        assert.strictEqual(text, JSON.stringify({ limits: [] }))
        assert.sameDeepMembers<unknown>(linesOf(headerLines), [...revalidated, ...json(text)])
      })))
})

describe("The response of a list", () => {
  it.live("has the headers of a list", () =>
    withServices({
      list: () => Effect.succeed({ operations: [operation, settled], next: { created_at: at, id: fixedId } })
    }, ({ send }) =>
      Effect.gen(function*() {
        const { headerLines, text } = yield* send("/v1/operations", { token })
        const { next_page_token } = JSON.parse(text) as { readonly next_page_token: string }
        const body = Schema.encodeSync(OperationList)({ operations: [operation, settled], next_page_token })
        assert.strictEqual(text, JSON.stringify(body))
        assert.match(next_page_token, /^[\w-]+$/)
        assert.sameDeepMembers<unknown>(linesOf(headerLines), [...revalidated, ...json(text)])
      })))
})
