import type { SandboxProblem, SubmissionKey } from "./Protocol.ts"

/** A complete response. */
export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly text: string
  readonly headers?: Readonly<Record<string, string>>
}

export const jsonAnswer = <Body>(status: number, body: Body): Answer => ({
  status,
  contentType: "application/json",
  text: JSON.stringify(body)
})

/** `key` names the submission of the problem, if there is one. */
export const problemAnswer = (status: number, code: string, message: string, key?: SubmissionKey): Answer =>
  jsonAnswer<SandboxProblem>(status, { code, message, ...key !== undefined && { idempotency_key: key } })

/** The answer of a proxy that cannot reach its server. */
export const badGateway: Answer = {
  status: 502,
  contentType: "text/html",
  text: "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
}
