/** The form of the Fastify peers' responses: schemas, from which Fastify makes serializers, and fixed headers. */

/** As the gateway's. */
export const headersOfEveryResponse = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

export const terminalStates: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"])

const timestamp = { type: "string", format: "date-time" }

export const operationSchema = {
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

export const listSchema = {
  type: "object",
  properties: {
    operations: { type: "array", items: operationSchema },
    next_page_token: { type: "string", nullable: true }
  }
}

export const problemSchema = {
  type: "object",
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    code: { type: "string" },
    request_id: { type: "string" }
  }
}
