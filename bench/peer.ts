/**
 * The peer of the gateway: the same three endpoints on Fastify and `pg`, in the usual style of their users. It has the
 * same database, checks and public form; one statement authorizes and one reads.
 */
import Fastify, { type FastifyReply, type FastifyRequest } from "fastify"
import { createHash, randomUUID } from "node:crypto"
import type { AddressInfo } from "node:net"
import { Pool } from "pg"
import { configuration, reportPort, type ServerConfig } from "./child.ts"

const { database, port, preparedPeer, socketDirectory, username } = configuration<ServerConfig>()
const pool = new Pool({ host: socketDirectory, port, user: username, database, max: 10 })

const query = async <Row>(name: string, text: string, values: ReadonlyArray<unknown>): Promise<ReadonlyArray<Row>> => {
  const { rows } = await pool.query<Row>(preparedPeer ? { name, text, values } : { text, values })
  return rows
}

// --- The database

interface GrantRow {
  readonly client_id: string
  readonly resource_owner: string
  readonly subject: string
  readonly scopes: ReadonlyArray<string>
  readonly expires_at: Date
  readonly revoked_at: Date | null
  readonly active: boolean
  readonly connected: boolean
}

interface OperationRow {
  readonly id: string
  readonly type: string
  readonly state: string
  readonly revision: number
  readonly under_review: boolean
  readonly created_at: Date
  readonly updated_at: Date
  readonly completed_at: Date | null
  readonly failure_code: string | null
  readonly failure_message: string | null
}

const grantByToken = `
  SELECT g.client_id, g.resource_owner, g.subject, g.scopes, g.expires_at, g.revoked_at, c.active, p.connected
  FROM access_tokens t
  JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  JOIN clients c ON c.id = g.client_id
  JOIN provider_connections p ON p.id = g.provider_connection_id
  WHERE t.digest = $1`

const columns =
  "id, type, state, revision, under_review, created_at, updated_at, completed_at, failure_code, failure_message"
const owned = "client_id = $1 AND resource_owner = $2 AND subject = $3"
const newestFirst = "ORDER BY created_at DESC, id DESC"

const operationById = `SELECT ${columns} FROM operations WHERE ${owned} AND id = $4`
const firstPage = `SELECT ${columns} FROM operations WHERE ${owned} ${newestFirst} LIMIT $4`
const pageAfter =
  `SELECT ${columns} FROM operations WHERE ${owned} AND (created_at, id) < ($5, $6) ${newestFirst} LIMIT $4`

const terminalStates = new Set(["succeeded", "failed", "cancelled"])

const toOperation = (row: OperationRow) => ({
  id: row.id,
  type: row.type,
  state: row.state,
  terminal: terminalStates.has(row.state),
  submission_uncertain: row.state === "indeterminate",
  under_review: row.under_review,
  revision: row.revision,
  created_at: row.created_at,
  updated_at: row.updated_at,
  completed_at: row.completed_at,
  failure: row.failure_code === null ? null : { code: row.failure_code, message: row.failure_message }
})

// --- The schemas of the endpoints

const timestamp = { type: "string", format: "date-time" }

const operationSchema = {
  type: "object",
  properties: {
    id: { type: "string" },
    type: { type: "string" },
    state: { type: "string" },
    terminal: { type: "boolean" },
    submission_uncertain: { type: "boolean" },
    under_review: { type: "boolean" },
    revision: { type: "integer" },
    created_at: timestamp,
    updated_at: timestamp,
    completed_at: { ...timestamp, nullable: true },
    failure: {
      type: "object",
      nullable: true,
      properties: { code: { type: "string" }, message: { type: "string" } }
    }
  }
}

const listSchema = {
  type: "object",
  properties: {
    operations: { type: "array", items: operationSchema },
    next_page_token: { type: "string", nullable: true }
  }
}

const problemSchema = {
  type: "object",
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    code: { type: "string" },
    request_id: { type: "string" }
  }
}

// --- The application

const app = Fastify({ requestIdHeader: "x-request-id", genReqId: () => randomUUID() })

app.decorateRequest("grant", null)

app.addHook("onRequest", async (request, reply) => {
  reply.header("x-request-id", request.id)
})

const refuse = (request: FastifyRequest, reply: FastifyReply, status: number, code: string) =>
  reply.code(status).type("application/problem+json").send({
    type: `http://127.0.0.1/problems/${code}`,
    title: code,
    status,
    code,
    request_id: request.id
  })

const authorize = async (request: FastifyRequest, reply: FastifyReply) => {
  const [scheme, token] = (request.headers.authorization ?? "").split(" ")
  if (scheme !== "Bearer" || token === undefined) return refuse(request, reply, 401, "missing_credentials")
  const digest = createHash("sha256").update(token).digest()
  const [grant] = await query<GrantRow>("grant_by_token", grantByToken, [digest])
  if (grant === undefined) return refuse(request, reply, 401, "invalid_token")
  if (grant.revoked_at !== null || grant.expires_at.getTime() <= Date.now()) {
    return refuse(request, reply, 401, "grant_revoked")
  }
  if (!grant.active) return refuse(request, reply, 401, "client_inactive")
  if (!grant.scopes.includes("operations:read")) return refuse(request, reply, 403, "insufficient_scope")
  if (!grant.connected) return refuse(request, reply, 403, "provider_disconnected")
  request.setDecorator("grant", grant)
}

app.get<{ Params: { id: string } }>("/v1/operations/:id", {
  schema: {
    params: { type: "object", properties: { id: { type: "string", format: "uuid" } } },
    response: { 200: operationSchema, "4xx": problemSchema }
  },
  onRequest: authorize
}, async (request, reply) => {
  const grant = request.getDecorator<GrantRow>("grant")
  const owner = [grant.client_id, grant.resource_owner, grant.subject]
  const [row] = await query<OperationRow>("operation_by_id", operationById, [...owner, request.params.id])
  if (row === undefined) return refuse(request, reply, 404, "operation_not_found")
  const etag = `"1-${row.revision}${row.under_review ? "-review" : ""}"`
  reply.header("cache-control", "private, no-cache").header("etag", etag)
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
  const grant = request.getDecorator<GrantRow>("grant")
  const { page_size, page_token } = request.query
  const values = [grant.client_id, grant.resource_owner, grant.subject, page_size + 1]
  const rows = page_token === undefined
    ? await query<OperationRow>("first_page", firstPage, values)
    : await query<OperationRow>("page_after", pageAfter, [
      ...values,
      ...Buffer.from(page_token, "base64url").toString().split(" ")
    ])
  const page = rows.slice(0, page_size)
  const last = page.at(-1)
  reply.header("cache-control", "private, no-cache")
  return {
    operations: page.map(toOperation),
    next_page_token: rows.length > page_size && last !== undefined
      ? Buffer.from(`${last.created_at.toISOString()} ${last.id}`).toString("base64url")
      : null
  }
})

app.get("/healthz", {
  schema: { response: { 200: { type: "object", properties: { status: { type: "string" } } } } }
}, async (_request, reply) => {
  reply.header("cache-control", "no-store")
  return { status: "ok" }
})

await app.listen({ port: 0, host: "127.0.0.1" })
reportPort((app.server.address() as AddressInfo).port)
