/**
 * The served API description follows Redocly's recommended rules and declares exactly the specified paths, statuses and
 * members. The tests read it as served.
 */
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as OpenApi from "effect/http-api/OpenApi"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { Api } from "../../../src/api/Api.ts"
import { baseUrl, type Code, problemTable } from "../../fixtures/http/HttpProblem.ts"

interface Media {
  readonly schema: {
    readonly $ref?: string
    readonly allOf?: readonly [{ readonly $ref: string }, { readonly properties: Readonly<Record<string, object>> }]
  }
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}
interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly schema: Readonly<Record<string, unknown>>
}
interface Operation {
  readonly operationId: string
  readonly tags: ReadonlyArray<string>
  readonly security?: ReadonlyArray<unknown>
  readonly parameters: ReadonlyArray<Parameter>
  readonly requestBody?: unknown
  readonly responses: Readonly<
    Record<
      string,
      { readonly content?: Record<string, Media>; readonly headers: Record<string, { required: boolean }> }
    >
  >
}
interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: unknown
}

/** The API description as the gateway serves it. */
const document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api.annotate(OpenApi.Servers, [{ url: baseUrl }])))) as {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description: string }>
  readonly paths: Readonly<Record<string, { readonly get: Operation }>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const operations = Object.entries(document.paths).map(([template, { get }]) => ({ template, ...get }))

/** The problem codes that every endpoint may return. */
const anywhere: ReadonlyArray<Code> = [
  "malformed_request",
  "payload_too_large",
  "uri_too_long",
  "invalid_request",
  "internal_error",
  "response_contract_failed"
]
const refusals: ReadonlyArray<Code> = [
  "not_acceptable",
  "service_unavailable",
  "missing_credentials",
  "invalid_token",
  "invalid_dpop_proof",
  "use_dpop_nonce",
  "grant_revoked",
  "client_inactive",
  "insufficient_scope",
  "provider_disconnected",
  "rate_limited",
  "authorization_unavailable"
]
const more: Readonly<Record<string, ReadonlyArray<Code>>> = {
  "/healthz": [],
  "/readyz": ["not_ready", "service_unavailable"],
  "/problems": ["not_acceptable"],
  "/.well-known/oauth-protected-resource": ["not_acceptable"],
  "/.well-known/oauth-protected-resource/mcp": ["not_acceptable"],
  "/problems/{code}": ["route_not_found", "not_acceptable"],
  "/v1/operations": [...refusals, "invalid_page_token"],
  "/v1/operations/changes": [...refusals, "change_token_expired"],
  "/v1/operations/{id}": [...refusals, "operation_not_found"],
  "/v1/limits": refusals
}
const successes: Readonly<Record<string, ReadonlyArray<string>>> = { "/v1/operations/{id}": ["200", "304"] }

describe("The API description", () => {
  it("passes the recommended rules of Redocly, without exceptions", async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "gateway-openapi-"))
    try {
      fs.writeFileSync(path.join(directory, "openapi.json"), JSON.stringify(document))
      const manifest = createRequire(import.meta.url).resolve("@redocly/cli/package.json")
      const { bin } = JSON.parse(fs.readFileSync(manifest, "utf8")) as { readonly bin: { readonly redocly: string } }
      const program = path.join(path.dirname(manifest), bin.redocly)
      const output = await new Promise<string>((resolve, reject) =>
        execFile(
          process.execPath,
          [program, "lint", "openapi.json", "--extends=recommended-strict", "--format=json"],
          { cwd: directory, env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" } },
          (error, stdout, stderr) => error === null ? resolve(stdout) : reject(new Error(stdout + stderr))
        )
      )
      const { problems, totals } = JSON.parse(output.slice(output.indexOf("{"))) as {
        readonly problems: ReadonlyArray<unknown>
        readonly totals: unknown
      }
      assert.deepStrictEqual(problems, [])
      assert.deepStrictEqual(totals, { errors: 0, warnings: 0, ignored: 0 })
    } finally {
      fs.rmSync(directory, { recursive: true })
    }
  })

  it("has version 1.0.0, and two tags with their purpose", () => {
    assert.match(document.openapi, /^3\.1\./)
    assert.strictEqual(document.info.version, "1.0.0")
    assert.deepStrictEqual(document.tags.toSorted((a, b) => a.name < b.name ? -1 : 1), [
      {
        name: "operations",
        description: "Durable financial operation status owned by the current subject and client."
      },
      { name: "system", description: "Gateway health and public API metadata endpoints." }
    ])
  })

  it("describes exactly these paths, all read-only", () => {
    assert.sameMembers(Object.keys(document.paths), Object.keys(more))
    for (const methods of Object.values(document.paths)) assert.deepStrictEqual(Object.keys(methods), ["get"])
    for (const { requestBody, tags, template } of operations) {
      assert.isUndefined(requestBody)
      assert.deepStrictEqual(tags, [template.startsWith("/v1/") ? "operations" : "system"])
    }
  })

  it("requires a credential only under /v1", () => {
    for (const { security, template } of operations) {
      assert.deepStrictEqual(security, template.startsWith("/v1/") ? [{ bearer: [] }, { dpop: [] }] : [])
    }
  })

  it.each(operations)(
    "declares every status of $template, and an example for every code",
    ({ responses, template }) => {
      const codes = [...anywhere, ...more[template]!]
      const statuses = new Set([
        ...successes[template] ?? ["200"],
        ...codes.map((code) => `${problemTable[code].status}`)
      ])
      assert.sameMembers(Object.keys(responses), [...statuses])
      const examples = Object.values(responses).flatMap(({ content = {} }) =>
        Object.keys(content["application/problem+json"]?.examples ?? {})
      )
      assert.sameMembers(examples, codes)
    }
  )

  it.each(operations)("declares the headers of every response of $template", ({ responses, template }) => {
    for (const [status, { headers }] of Object.entries(responses)) {
      const required = Object.keys(headers).filter((name) => headers[name]!.required)
      assert.include(required, "X-Request-Id")
      if (Number(status) >= 400) assert.include(required, "Cache-Control")
      else if (template.startsWith("/v1/")) assert.includeMembers(required, ["Cache-Control", "Vary"])
      if (status === "401" || status === "403") assert.include(required, "WWW-Authenticate")
      if (status === "429" || status === "503") assert.include(required, "Retry-After")
      if (template.startsWith("/v1/")) assert.includeMembers(Object.keys(headers), ["RateLimit", "RateLimit-Policy"])
      else assert.notInclude(Object.keys(headers), "RateLimit")
    }
  })

  it("tells by a pattern that an instant has an upper-case T and Z, which the format alone does not", () => {
    const { parameters } = document.paths["/v1/operations"]!.get
    for (const name of ["created_after", "created_before"]) {
      const { format, pattern } = parameters.find((one) => one.name === name)!.schema
      assert.strictEqual(format, "date-time")
      const isInstant = new RegExp(String(pattern), "u")
      assert.isTrue(isInstant.test("2026-01-31T12:00:00.5+01:00"))
      assert.isFalse(isInstant.test("2026-01-31t12:00:00z"))
    }
  })

  it("has the parameter X-Request-Id everywhere, and exactly these others", () => {
    const named = (template: string) =>
      document.paths[template]!.get.parameters.map(({ in: place, name, required }) =>
        `${place} ${name}${required ? "" : "?"}`
      )
    const requestId = "header X-Request-Id?"
    const metadata = "/.well-known/oauth-protected-resource"
    for (const template of ["/healthz", "/readyz", "/problems", metadata, `${metadata}/mcp`]) {
      assert.deepStrictEqual(named(template), [requestId])
    }
    assert.sameMembers(named("/problems/{code}"), ["path code", requestId])
    assert.sameMembers(named("/v1/operations/{id}"), [
      "path id",
      "header If-None-Match?",
      "header Prefer?",
      requestId
    ])
    assert.sameMembers(named("/v1/operations/changes"), [
      "query after?",
      "query state?",
      "query type?",
      "query page_size?",
      "header Prefer?",
      requestId
    ])
    assert.sameMembers(named("/v1/operations"), [
      "query state?",
      "query type?",
      "query created_after?",
      "query created_before?",
      "query idempotency_key?",
      "query page_size?",
      "query page_token?",
      requestId
    ])
    const schemaOf = (name: string) =>
      document.paths["/v1/operations"]!.get.parameters.find((parameter) => parameter.name === name)!.schema
    assert.deepStrictEqual(schemaOf("page_size"), { type: "integer", minimum: 1, maximum: 100, default: 100 })
    assert.deepStrictEqual(schemaOf("X-Request-Id"), { type: "string", pattern: "^[A-Za-z0-9._~-]{8,128}$" })
  })

  it("declares the header of an honoured wait where a client may wait, and only there", () => {
    for (const { parameters, responses, template } of operations) {
      const mayWait = parameters.some(({ name }) => name === "Prefer")
      for (const [status, { headers }] of Object.entries(responses)) {
        const isAnswer = Number(status) < 400
        assert.strictEqual("Preference-Applied" in headers, mayWait && isAnswer, `${template} ${status}`)
      }
    }
  })

  it("has only closed objects, and problems with exactly the specified members, all required", () => {
    const members = [
      "type",
      "title",
      "status",
      "detail",
      "instance",
      "code",
      "fields",
      "request_id",
      "retryable",
      "submission_uncertain"
    ]
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      if (schema.type !== "object") continue
      assert.isFalse(schema.additionalProperties, name)
      // Unsupported parameters are left out (RFC 9728 §3.2).
      if (name !== "ProtectedResourceMetadata") {
        assert.sameMembers([...schema.required!], Object.keys(schema.properties!), name)
      }
    }
    const { HealthResponse, ProblemDetails, ProblemField } = document.components.schemas
    assert.deepStrictEqual([...ProblemDetails!.required!], members)
    assert.sameMembers(Object.keys(document.components.schemas).filter((name) => /problem/i.test(name)), [
      "ProblemField",
      "ProblemDetails",
      "ProblemCatalogue",
      "ProblemDescription"
    ])
    assert.deepStrictEqual(Object.keys(HealthResponse!.properties!), ["status"])
    assert.deepStrictEqual(HealthResponse!.properties!["status"]!["enum"], ["ok"])
    assert.sameMembers(Object.keys(ProblemField!.properties!), ["message", "path"])
  })

  it("declares each member that tells an instant as a date-time", () => {
    const instants: Array<string> = []
    JSON.stringify(document.components.schemas, (name, schema: unknown) => {
      if (!name.endsWith("_at")) return schema
      instants.push(name)
      const { anyOf: [instant = schema] = [] } = schema as { readonly anyOf?: ReadonlyArray<unknown> }
      assert.deepStrictEqual(instant, { type: "string", format: "date-time" }, name)
      return schema
    })
    assert.includeMembers(instants, ["created_at", "updated_at", "completed_at", "resets_at"])
  })

  it.each(operations)(
    "makes each problem of $template of ProblemDetails, with its codes and its status",
    ({ responses }) => {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const { examples, schema } = content["application/problem+json"] ?? {}
        if (Number(status) < 400) assert.isUndefined(schema)
        else {
          assert.deepStrictEqual<unknown>(schema, {
            allOf: [
              { $ref: "#/components/schemas/ProblemDetails" },
              { properties: { status: { const: Number(status) }, code: { enum: Object.keys(examples!) } } }
            ]
          })
        }
      }
    }
  )

  it("has examples that match their schemas", () => {
    const ajv = new Ajv2020({ strict: false, formats: { "date-time": true, uri: true, uuid: true } })
    ajv.addSchema(document, "gateway")
    let count = 0
    const escape = (segment: string) => encodeURIComponent(segment.replaceAll("~", "~0").replaceAll("/", "~1"))
    for (const { responses, template } of operations) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        for (const [mediaType, { example, examples = {} }] of Object.entries(content)) {
          // A page for people has no example.
          if (mediaType === "text/html") continue
          const pointer = ["paths", template, "get", "responses", status, "content", mediaType, "schema"].map(escape)
          const validate = ajv.compile({ $ref: `gateway#/${pointer.join("/")}` })
          const values = [
            ...Object.values(examples).map(({ value }) => value),
            ...example === undefined ? [] : [example]
          ]
          assert.isNotEmpty(values)
          for (const value of values) assert(validate(value), ajv.errorsText(validate.errors))
          count += values.length
        }
      }
    }
    assert.isAbove(count, 60)
  })
})
