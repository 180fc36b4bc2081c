/**
 * The conformance check that all HTTP tests apply accepts good responses and catches each broken rule. The tests feed
 * it one response per broken rule.
 */
import { assert, describe, it } from "@effect/vitest"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "../../../src/api/Api.ts"
import { type Document, makeConformance } from "../../fixtures/http/HttpConformance.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { type Answer, toHeaders } from "../../fixtures/http/HttpWire.ts"

const { check } = makeConformance(JSON.parse(JSON.stringify(OpenApi.fromApi(Api))) as Document)

const id = "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10"
const common = {
  date: "Sat, 31 Jan 2026 12:00:00 GMT",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-request-id": id
}

const answer = (status: number, headers: Record<string, string>, body: unknown): Answer => {
  const headerLines = Object.entries({ ...common, ...headers })
  return { status, headerLines, headers: toHeaders(headerLines), text: body === undefined ? "" : JSON.stringify(body) }
}

const json = { "content-type": "application/json" }
const problemJson = { "content-type": "application/problem+json", "cache-control": "no-store" }
const problem = {
  type: `${baseUrl}/problems/invalid_request`,
  title: "Invalid request",
  status: 422,
  detail: "Something is wrong.",
  instance: "/healthz",
  code: "invalid_request",
  fields: [{ path: "query.x", message: "Expected nothing" }],
  request_id: id,
  retryable: false,
  submission_uncertain: false
}
const { retryable: _retryable, ...incomplete } = problem

const asked = { method: "GET", target: "/healthz" }

describe("The conformance check", () => {
  it("accepts good responses", () => {
    check(asked, answer(200, json, { status: "ok" }))
    check({ method: "HEAD", target: "/healthz" }, answer(200, json, undefined))
    check({ method: "GET", target: "/healthz?x=1" }, answer(422, problemJson, problem))
    check({ method: "OPTIONS", target: "/healthz" }, answer(204, { allow: "GET, HEAD, OPTIONS" }, undefined))
  })

  const bad: Readonly<Record<string, Answer>> = {
    "an undeclared status": answer(201, json, { status: "ok" }),
    "an undeclared redirect": answer(307, { location: "/" }, undefined),
    "another body": answer(200, json, { status: "fine" }),
    "a body with an undeclared member": answer(200, json, { status: "ok", version: "1" }),
    "no body": answer(200, {}, undefined),
    "another media type": answer(200, { "content-type": "text/plain" }, { status: "ok" }),
    "an undeclared header": answer(200, { ...json, etag: "\"1\"" }, { status: "ok" }),
    "no request id": answer(200, { ...json, "x-request-id": "" }, { status: "ok" }),
    "an unsafe request id": answer(200, { ...json, "x-request-id": "not a uuid" }, { status: "ok" }),
    "no date": answer(200, { ...json, date: "" }, { status: "ok" }),
    "a server header": answer(200, { ...json, server: "node" }, { status: "ok" }),
    "a body whose type browsers may sniff": answer(200, { ...json, "x-content-type-options": "" }, { status: "ok" }),
    "no policy": answer(200, { ...json, "content-security-policy": "" }, { status: "ok" }),
    "a problem as plain JSON": answer(422, { ...problemJson, ...json }, problem),
    "a problem that may be stored": answer(422, { ...problemJson, "cache-control": "public" }, problem),
    "an incomplete problem": answer(422, problemJson, incomplete),
    "a problem with an undeclared member": answer(422, problemJson, { ...problem, stack: "at" }),
    "a problem of another status": answer(422, problemJson, { ...problem, status: 400 }),
    "a problem of another request": answer(422, problemJson, { ...problem, request_id: "another-one" }),
    "a problem of another path": answer(422, problemJson, { ...problem, instance: "/readyz" }),
    "a problem with an unknown code": answer(422, problemJson, { ...problem, code: "oops" }),
    "a problem of another type": answer(422, problemJson, { ...problem, type: `${baseUrl}/problems/oops` }),
    "an uncertain read": answer(422, problemJson, { ...problem, submission_uncertain: true }),
    "a client error that claims to be retryable": answer(422, problemJson, { ...problem, retryable: true }),
    "a problem without its fields": answer(422, problemJson, { ...problem, fields: null }),
    "a problem with empty fields": answer(422, problemJson, { ...problem, fields: [] }),
    "a field with more than a path and a message": answer(422, problemJson, {
      ...problem,
      fields: [{ path: "query.x", message: "m", value: "secret" }]
    })
  }
  it.each(Object.keys(bad))("catches %s", (name) => {
    assert.throws(() => check(asked, bad[name]!))
  })

  it("catches a second request id, and one that was not echoed", () => {
    const good = answer(200, json, { status: "ok" })
    assert.throws(() => check(asked, { ...good, headerLines: [...good.headerLines, ["X-Request-Id", id]] }))
    assert.throws(() => check({ ...asked, requestId: "safe-and-sound" }, good))
  })

  it("catches a body where there must be none", () => {
    const good = answer(200, json, { status: "ok" })
    assert.throws(() => check({ method: "HEAD", target: "/healthz" }, good))
    assert.throws(() => check({ method: "OPTIONS", target: "/healthz" }, good))
    assert.throws(() => check({ method: "GET", target: "/nowhere" }, good))
  })
})
