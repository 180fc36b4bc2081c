/**
 * The Fastify peers: the same three endpoints as the gateway, in the usual style of Fastify's users, on the store of
 * a driver. They have the same database, checks, headers and bodies.
 */
import Fastify, { type FastifyReply, type FastifyRequest } from "fastify"
import { createHash, randomUUID } from "node:crypto"
import type { AddressInfo } from "node:net"
import { reportPort } from "../shared/processes.ts"
import { headersOfEveryResponse, listSchema, operationSchema, problemSchema, terminalStates } from "./form.ts"
import type { OperationRow, Store } from "./store.ts"

const toOperation = (row: OperationRow) => ({
  id: row.id,
  type: row.type,
  state: row.state,
  terminal: terminalStates.has(row.state),
  submission_uncertain: row.state === "submitting" || row.state === "indeterminate",
  under_review: row.under_review,
  revision: row.revision,
  created_at: row.created_at,
  updated_at: row.updated_at,
  completed_at: row.completed_at,
  failure: row.failure_code === null ? null : { code: row.failure_code, message: row.failure_message }
})

const tokenOf = (row: OperationRow) => Buffer.from(`${row.created_at.toISOString()} ${row.id}`).toString("base64url")

const cursorOf = (token: string): readonly [string, string] | null => {
  const [createdAt, id] = Buffer.from(token, "base64url").toString().split(" ")
  return createdAt === undefined || id === undefined || Number.isNaN(Date.parse(createdAt)) ? null : [createdAt, id]
}

/** Seconds until another read is useful, for an operation that is not final. */
const retryAfterOf = (row: OperationRow) =>
  Math.min(300, Math.max(1, Math.ceil((Date.now() - row.updated_at.getTime()) / 10_000)))

const refuse = (request: FastifyRequest, reply: FastifyReply, status: number, code: string) =>
  reply.code(status).type("application/problem+json").send({
    type: `http://127.0.0.1/problems/${code}`,
    title: code,
    status,
    code,
    request_id: request.id
  })

const isRequestId = /^[A-Za-z0-9._~-]{8,128}$/

const requestIdOf = (received: string | Array<string> | undefined) =>
  typeof received === "string" && isRequestId.test(received) ? received : randomUUID()

const authorize = async (request: FastifyRequest, reply: FastifyReply) => {
  const token = /^bearer +([^ ].*)$/i.exec(request.headers.authorization ?? "")?.[1]
  if (token === undefined) return refuse(request, reply, 401, "missing_credentials")
  request.setDecorator("digest", createHash("sha256").update(token).digest())
}

/** Listens, and reports its port to the parent. */
export const serve = async (store: Store): Promise<void> => {
  const app = Fastify({ genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]) })
  app.decorateRequest("digest", null)
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(headersOfEveryResponse).header("x-request-id", request.id)
  })

  app.get<{ Params: { id: string } }>("/v1/operations/:id", {
    schema: {
      params: { type: "object", properties: { id: { type: "string", format: "uuid" } } },
      response: { 200: operationSchema, "4xx": problemSchema }
    },
    onRequest: authorize
  }, async (request, reply) => {
    const found = await store.find(request.getDecorator<Buffer>("digest"), request.params.id)
    if ("refusal" in found) return refuse(request, reply, found.refusal.status, found.refusal.code)
    const [row] = found.rows
    if (row === undefined) return refuse(request, reply, 404, "operation_not_found")
    const etag = `"1-${row.revision}-${row.updated_at.getTime().toString(36)}${row.under_review ? "-review" : ""}"`
    reply.headers({ "cache-control": "private, no-cache", vary: "Accept, Authorization, Prefer", etag })
    if (!terminalStates.has(row.state)) reply.header("retry-after", retryAfterOf(row))
    if (request.headers["if-none-match"] === etag) return reply.code(304).send()
    return toOperation(row)
  })

  app.get<{ Querystring: { page_size: number; page_token?: string } }>("/v1/operations", {
    schema: {
      querystring: {
        type: "object",
        properties: {
          page_size: { type: "integer", minimum: 1, maximum: 100, default: 100 },
          page_token: { type: "string" }
        },
        additionalProperties: false
      },
      response: { 200: listSchema, "4xx": problemSchema }
    },
    onRequest: authorize
  }, async (request, reply) => {
    const { page_size, page_token } = request.query
    const after = page_token === undefined ? null : cursorOf(page_token)
    if (page_token !== undefined && after === null) return refuse(request, reply, 422, "invalid_page_token")
    const found = await store.list(request.getDecorator<Buffer>("digest"), { limit: page_size + 1, after })
    if ("refusal" in found) return refuse(request, reply, found.refusal.status, found.refusal.code)
    const page = found.rows.slice(0, page_size)
    reply.headers({ "cache-control": "private, no-cache", vary: "Accept, Authorization" })
    return {
      operations: page.map(toOperation),
      next_page_token: found.rows.length > page_size ? tokenOf(page.at(-1)!) : null
    }
  })

  app.get("/healthz", {
    schema: { response: { 200: { type: "object", properties: { status: { type: "string" } } } } }
  }, async () => ({ status: "ok" }))

  await app.listen({ port: 0, host: "127.0.0.1" })
  reportPort((app.server.address() as AddressInfo).port)
}
