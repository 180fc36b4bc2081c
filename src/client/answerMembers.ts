// Written by `npm run surface` from the schemas of the API.

export const Operation = {
  id: "string",
  type: "string",
  state: "string",
  terminal: "boolean",
  submission_uncertain: "boolean",
  under_review: "boolean",
  revision: "number",
  created_at: "string",
  updated_at: "string",
  completed_at: "nullable string",
  failure: "nullable object"
} as const

export const OperationList = {
  operations: "operations",
  next_page_token: "nullable string"
} as const

export const OperationChanges = {
  operations: "operations",
  next_change_token: "string",
  has_more: "boolean"
} as const

export const GrantLimits = {
  limits: "array"
} as const

export const ProblemDetails = {
  type: "string",
  title: "string",
  status: "number",
  detail: "string",
  instance: "string",
  code: "string",
  fields: "nullable array",
  request_id: "string",
  retryable: "boolean",
  submission_uncertain: "boolean"
} as const
