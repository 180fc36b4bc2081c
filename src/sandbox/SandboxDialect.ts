/** The dialect of the sandbox: `Protocol` documents it. */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { formatTimestamp } from "../domain/Timestamp.ts"
import { type Answer, answered, type BankEvent, type Demand, type Dialect, jsonAnswer, type Saying } from "./Dialect.ts"
import {
  idempotencyKeyHeader,
  type SandboxProblem,
  SandboxRequest,
  type SandboxStatus,
  type SandboxWebhook,
  sendBeforeHeader,
  SubmissionKey,
  submissionsPath
} from "./Protocol.ts"
import { decodeInstruction, Instant } from "./SandboxOutcome.ts"
import { decodePercent, describeIssues } from "./Wire.ts"

/** `key` names the submission of the problem, if there is one. */
export const problemAnswer = (
  status: number,
  code: string,
  message: string,
  key: SubmissionKey | null = null
): Answer => jsonAnswer<SandboxProblem>(status, { code, message, ...key !== null && { idempotency_key: key } })

const decodeKey = Schema.decodeUnknownResult(SubmissionKey)
const decodeBody = Schema.decodeResult(Schema.fromJsonString(SandboxRequest))
const decodeInstant = Schema.decodeUnknownResult(Instant)

/** The key in a path after its prefix, or a problem. */
export const keyIn = (path: string, prefix: string): Result.Result<SubmissionKey, Answer> =>
  keyOf("key", decodePercent(path.slice(prefix.length)))

const keyOf = (name: string, value: unknown): Result.Result<SubmissionKey, Answer> =>
  Result.mapError(decodeKey(value), (error) => problemAnswer(400, "invalid_key", `${name}: ${describeIssues(error)}`))

/** The answer to any other method. */
export const wrongMethod = (allowed: string): Answer =>
  problemAnswer(405, "method_not_allowed", `Only ${allowed} is allowed here`)

const demandFor = (tag: "Submit" | "ReadByKey", key: Result.Result<SubmissionKey, Answer>): Demand =>
  Result.isSuccess(key) ? { _tag: tag, key: key.success } : answered(key.failure)

const named = <A>(part: string, result: Result.Result<A, Schema.SchemaError>) =>
  Result.mapError(result, (error) => `${part}: ${describeIssues(error)}`)

const write = (saying: Saying): Answer => {
  switch (saying._tag) {
    case "Taken":
      return jsonAnswer<SandboxStatus>(saying.known.status.status === "succeeded" ? 200 : 202, saying.known.status)
    case "Refused":
      return problemAnswer(422, saying.failure.code, saying.failure.message, saying.key)
    case "TooLate":
      return problemAnswer(409, "too_late", "Send-Before has passed; nothing was carried out", saying.key)
    case "DuplicateKey":
      return problemAnswer(409, "duplicate_key", "The key was received before", saying.key)
    case "Invalid":
      return problemAnswer(400, "invalid_request", saying.reason, saying.key)
    case "Status":
      return jsonAnswer<SandboxStatus>(200, saying.known.status)
    case "NotFound":
      return problemAnswer(
        404,
        "not_found",
        "The submission is not known",
        "key" in saying.demand ? saying.demand.key : null
      )
    case "Unauthorized":
      return problemAnswer(401, "unauthorized", "Unknown credentials; nothing was carried out")
    case "BodyTooLarge":
      return problemAnswer(413, "body_too_large", "The body is too large")
    case "TooManyRequests":
      return {
        ...problemAnswer(429, "too_many_requests", "Too many requests; nothing was carried out"),
        headers: { "retry-after": String(saying.retryAfterSeconds) }
      }
  }
}

/** The body of a webhook of the sandbox. */
export const sandboxWebhook = ({ at, kind, known: { status } }: BankEvent): SandboxWebhook => ({
  type: kind === "accepted" ? "mutation.accepted" : "mutation.settled",
  timestamp: formatTimestamp(at),
  data: status
})

export const sandboxDialect: Dialect = {
  demandOf: ({ headers, method, path }) => {
    if (path === submissionsPath) {
      return method === "POST"
        ? demandFor("Submit", keyOf("Idempotency-Key", headers[idempotencyKeyHeader]))
        : answered(wrongMethod("POST"))
    }
    if (!path.startsWith(`${submissionsPath}/`)) return null
    return method === "GET"
      ? demandFor("ReadByKey", keyIn(path, `${submissionsPath}/`))
      : answered(wrongMethod("GET"))
  },
  submissionOf: ({ headers }, body) =>
    Result.gen(function*() {
      const { payload, type } = yield* named("body", decodeBody(body))
      const instruction = Predicate.hasProperty(payload, "sandbox")
        ? yield* named("payload.sandbox", decodeInstruction(payload.sandbox))
        : undefined
      const before = headers[sendBeforeHeader]
      const sendBefore = before === undefined ? Infinity : yield* named("Send-Before", decodeInstant(before))
      return { type, instruction, sendBefore }
    }),
  write
}
