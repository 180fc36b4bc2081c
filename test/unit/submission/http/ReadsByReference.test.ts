/** A status read without the bank's reference asks for the operation by its id, or is not made. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { OperationId } from "../../../../src/domain/Operation.ts"
import { ProviderReference } from "../../../../src/domain/Submission.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import type { HttpProviderOptions } from "../../../../src/submission/http/HttpProviderOptions.ts"
import { type ProviderPromises } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { asksFor } from "../../../../src/submission/providers/ProviderPromises.ts"
import {
  answering,
  operationOf,
  optionsFor,
  rawServer,
  response,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"

describe("A bank that finds a transfer only by its own reference", () => {
  it.live.each<readonly [string, ProviderPromises, RegExp]>([
    [
      "by its key",
      { readByOperationId: "yes", lateRequests: { header: "Send-Before" }, notFoundIsFinalAfter: "5 seconds" },
      /must contain the operation's id/
    ],
    ["by its key, after a time", { readByOperationId: { lag: "1 second" } }, /must contain the operation's id/],
    ["by its reference alone", { readByOperationId: "no" }, /no status read without its own reference/],
    ["by nothing, which is the default", {}, /no status read without its own reference/]
  ])(
    "proves nothing without the reference if the adapter promises a read %s",
    ([, promises, detail]) =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(200, succeeded)))
        const { status, ...options } = optionsFor(server.url, { account: "live 1", promises })
        // The request at the start contains the id, so the adapter starts.
        const request: HttpProviderOptions["status"]["request"] = ({ id, type }, reference) => ({
          path: `/mutations/${type === "probe" ? id : reference}`
        })
        const { readStatus } = yield* HttpProvider.make({ ...options, status: { ...status, request } })
        const answer = yield* readStatus(operationOf(), null)
        assert.deepInclude(answer, { _tag: "NotProven", reason: "unclear" })
        assert.match("detail" in answer ? answer.detail : "", detail)
        assert.deepStrictEqual(server.requests, [], "nothing is sent")
        const known = yield* readStatus(operationOf(), ProviderReference.make("ref-1"))
        assert.deepInclude(known, { _tag: "Proven", state: "succeeded" })
      }).pipe(Effect.provide(ProviderHttpClient.layer()))
  )
})

/** An adapter that sends the operation's id with each request, so that the bank can name it in its logs. */
const traced = (
  path: (reference: string | null, operation: { readonly id: string }) => string
): HttpProviderOptions["status"]["request"] =>
(operation, reference) => ({ path: path(reference, operation), headers: { "x-request-id": operation.id } })

describe("A status request without a reference", () => {
  const id = OperationId.make("019aa4f0-5c00-7b1e-8d2f-0a1b2c3d4e5f")
  const plain = id.replaceAll("-", "")
  const other = id.replace(/f$/, "0")

  it.each<readonly [boolean, string, Parameters<typeof asksFor>[1]]>([
    [true, "the id in the path", { path: `/transfers/${id}` }],
    [true, "the id in the query", { path: `/transfers?key=${id}&limit=2` }],
    [true, "the id in capitals, without hyphens", { path: `/transfers/${plain.toUpperCase()}` }],
    [true, "the encoded id", { path: `/transfers/${id.replaceAll("-", "%2D").replaceAll("a", "%61")}` }],
    [true, "the id beside what is no encoding", { path: `/transfers/${id}?rate=5%` }],
    [true, "the id in the body", { path: "/search", body: JSON.stringify({ key: id }) }],
    [true, "the id as the key, in its header", { path: "/transfers?limit=2", key: id }],
    [true, "the id in the path, beside an empty value", { path: `/transfers/${id}/?cursor=` }],
    [true, "the id in the query, beside null", { path: `/transfers?cursor=null&key=${id}` }],
    [true, "the id beside a word with null", { path: `/nullable/${id}?state=nullified` }],
    [false, "no id", { path: "/transfers" }],
    [false, "another id", { path: `/transfers/${other}` }],
    [false, "nothing at the end of the path, and the id in the query", { path: `/transfers/?trace=${id}` }],
    ...[[true, ""], [false, `?trace=${id}`]].map(([expected, query]) =>
      [expected, `a slash at the end, the id in the query, and by reference "${query}"`, {
        path: `/transfers/?key=${id}`,
        byReference: { path: `/transfers/ref-1${query}`, reference: "ref-1" }
      }] as [boolean, string, Parameters<typeof asksFor>[1]]
    ),
    [true, "a slash at the end, and the same request by reference", {
      path: `/transfers/?key=${id}`,
      byReference: { path: `/transfers/?key=${id}`, reference: "ref-1" }
    }],
    [false, "null before a slash at the end, and another request by reference", {
      path: `/transfers/null/?key=${id}`,
      byReference: { path: "/transfers/ref-1/", reference: "ref-1" }
    }],
    [false, "nothing before a slash at the end, and another request by reference", {
      path: `/transfers//?key=${id}`,
      byReference: { path: "/transfers/ref-1/", reference: "ref-1" }
    }],
    [false, "nothing within the path, and the id in the query", { path: `/transfers//state?trace=${id}` }],
    [false, "null at the end of the path, and the id in the query", { path: `/transfers/null?trace=${id}` }],
    [false, "null after a colon, and the id in the query", { path: `/transfers:null?trace=${id}` }],
    [false, "nothing at the end of the path, and the id as the key", { path: "/transfers/", key: id }],
    [false, "null in the path, and the id as the key", { path: "/transfers/null", key: id }],
    [false, "undefined in the path, and the id as the key", { path: "/undefined/state", key: id }],
    [false, "null in the query, and the id as the key", { path: "/transfers?id=null&a=1", key: id }],
    [false, "nothing in the query, and the id as the key", { path: "/transfers?a=1&ref=", key: id }]
  ])(
    "asks for the operation: %s, with %s",
    (expected, _, request) => assert.strictEqual(asksFor(id, request), expected)
  )

  it.effect.each<readonly [boolean, string, HttpProviderOptions["status"]["request"]]>([
    [false, "nothing in place of the reference", traced((reference) => `/transfers/${reference ?? ""}`)],
    [false, "nothing in the query", traced((reference) => `/transfers?ref=${reference ?? ""}`)],
    [false, "null after a colon", traced((reference) => `/transfers:${reference}`)],
    [false, "zero", traced((reference) => `/transfers/${reference ?? 0}`)],
    [true, "the id in the path", traced((reference, { id }) => `/transfers/${reference ?? id}`)],
    [
      true,
      "a slash before the query with the id",
      traced((reference, { id }) => reference === null ? `/transfers/?key=${id}` : `/transfers/${reference}`)
    ],
    [
      false,
      "nothing in place of the reference, and a query for tracing",
      traced((reference, { id }) => `/transfers/${reference ?? ""}?trace=${id}`)
    ],
    [true, "the id as the key", ({ id }) => ({ path: "/transfers", headers: { "X-KEY": id } })],
    [true, "what only the payload tells", (_, __, payload) => ({ path: (payload as { path: string }).path })]
  ])(
    "lets an adapter start: %s, with %s, and the id in a header for tracing",
    ([starts, , request]) =>
      Effect.gen(function*() {
        for (const readByOperationId of ["yes", { lag: "1 second" }] as const) {
          const { status, ...options } = optionsFor("http://127.0.0.1:1", { promises: { readByOperationId } })
          const made = yield* Effect.exit(
            HttpProvider.make({ ...options, idempotencyKeyHeader: "x-key", status: { ...status, request } })
          )
          assert.strictEqual(Exit.isSuccess(made), starts)
          if (Exit.isFailure(made)) {
            const error = Cause.squash(made.cause)
            assert.instanceOf(error, TypeError)
            assert.match(error.message, /must contain the operation's id/)
          }
        }
      }).pipe(Effect.provide(ProviderHttpClient.layer()))
  )

  it.live("may lack the id where the answer is a list without a filter, which the adapter searches", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(404, `{"code":"not_found"}`)))
      const { status, ...options } = optionsFor(server.url)
      const list = { ...status, request: () => ({ path: "/transfers" }) }
      const read = (isUnfiltered: boolean) =>
        Effect.flatMap(
          HttpProvider.make({ ...options, status: { ...list, isUnfiltered } }),
          ({ readStatus }) => readStatus(operationOf(), null)
        )
      assert.strictEqual((yield* read(true))._tag, "NotFound")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(read(false))))
      assert.lengthOf(server.requests, 1)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))
})
