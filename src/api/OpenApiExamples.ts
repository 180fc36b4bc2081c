/**
 * The examples in the OpenAPI document.
 */
import { mcpPath } from "../domain/McpResource.ts"
import { type ProblemCode, problemKinds } from "./ProblemKinds.ts"

/** The path of the problems that the examples of reads show. */
export const readPath = "/v1/operations"

/** A problem with this code, as the endpoint at `instance` answers it. */
export const exampleProblem = (code: ProblemCode, instance: string) => ({
  summary: problemKinds[code].title,
  value: {
    type: `https://gateway.example/problems/${code}`,
    title: problemKinds[code].title,
    status: problemKinds[code].status,
    detail: problemKinds[code].meaning,
    instance,
    code,
    fields: code === "invalid_request"
      ? [
        instance === readPath
          ? { message: "Expected an integer from 1 to 100", path: "query.page_size" }
          : { message: "Missing key", path: "body.amount" }
      ]
      : code === "invalid_page_token"
      ? [{ message: "Expected a token of this list and these filters", path: "query.page_token" }]
      : null,
    request_id: "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10",
    retryable: problemKinds[code].retryable,
    submission_uncertain: false
  }
})

export const exampleOperation = {
  id: "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f",
  type: "payment",
  state: "indeterminate",
  terminal: false,
  submission_uncertain: true,
  under_review: false,
  revision: 3,
  created_at: "2026-01-31T12:00:00.000Z",
  updated_at: "2026-01-31T12:00:02.417Z",
  completed_at: null,
  failure: null
}

/** The metadata of the gateway as a protected resource. */
const exampleMetadata = {
  resource: "https://gateway.example",
  authorization_servers: ["https://as.example"],
  scopes_supported: ["operations:read"],
  bearer_methods_supported: ["header"],
  resource_name: "Financial Agents Gateway",
  resource_documentation: "https://gateway.example/docs",
  dpop_signing_alg_values_supported: ["ES256", "EdDSA", "Ed25519", "PS256"],
  dpop_bound_access_tokens_required: true
}

/** The response of each endpoint of the gateway, by the id of its operation. */
export const exampleOf: Readonly<Record<string, unknown>> = {
  getHealth: { status: "ok" },
  getReadiness: { status: "ok" },
  getOperation: exampleOperation,
  listChanges: { operations: [exampleOperation], next_change_token: "q6ct1c1Wk0WvPUWvm8WxVQ", has_more: false },
  listOperations: { operations: [exampleOperation], next_page_token: null },
  getProtectedResourceMetadata: exampleMetadata,
  getMcpResourceMetadata: {
    ...exampleMetadata,
    resource: `${exampleMetadata.resource}${mcpPath}`,
    resource_name: `${exampleMetadata.resource_name}: MCP endpoint`
  },
  listProblems: {
    problems: [{
      type: "https://gateway.example/problems/grant_revoked",
      code: "grant_revoked",
      ...problemKinds.grant_revoked
    }]
  },
  getProblem: {
    type: "https://gateway.example/problems/grant_revoked",
    code: "grant_revoked",
    ...problemKinds.grant_revoked
  }
}
