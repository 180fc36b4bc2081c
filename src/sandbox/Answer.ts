import type { SandboxProblem, SubmissionKey } from "./Protocol.ts"

/** A response, ready to be sent. */
export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly text: string
}

export const jsonAnswer = <Body>(status: number, body: Body): Answer => ({
  status,
  contentType: "application/json",
  text: JSON.stringify(body)
})

/** `key` names the submission that it is about, if any. */
export const problemAnswer = (status: number, code: string, message: string, key?: SubmissionKey): Answer =>
  jsonAnswer<SandboxProblem>(status, { code, message, ...key !== undefined && { idempotency_key: key } })

/** What a proxy says when it lost the server behind it. */
export const badGateway: Answer = {
  status: 502,
  contentType: "text/html",
  text: "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
}
