/**
 * The control plane: the record, the true state of each key, and the fault switches. For the loopback interface alone.
 *
 *     GET /record            every receipt, in order, as lines of JSON (`Receipt`)
 *     GET /arrivals          when the last 100,000 submissions and status reads arrived, as lines of JSON (`Arrival`)
 *     GET /truth             the true state of every key, as lines of JSON (`Truth`)
 *     GET /truth/{key}       the true state of one key
 *     GET /faults            the switches (`FaultSettings`)
 *     PUT /faults            replaces all switches; a switch that is left out is off
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { IncomingMessage, ServerResponse } from "node:http"
import { Readable } from "node:stream"
import type { Arrivals } from "./BankRequests.ts"
import { jsonAnswer } from "./Dialect.ts"
import { FaultSettings } from "./Faults.ts"
import type { SubmissionRecord } from "./Record.ts"
import { keyIn, problemAnswer, wrongMethod } from "./SandboxDialect.ts"
import type { Submissions } from "./Submissions.ts"
import { describeIssues, readBody, send, sendLines } from "./Wire.ts"

/** The address is in use, or does not belong to this machine. */
export class CannotListen extends Schema.TaggedError<CannotListen>()("CannotListen", {
  host: Schema.String,
  port: Schema.Int,
  cause: Schema.Defect()
}) {
  override get message() {
    return `cannot listen on ${this.host}, port ${this.port}: ${
      this.cause instanceof Error ? this.cause.message : String(this.cause)
    }`
  }
}

export interface ControlledSandbox {
  readonly submissions: Submissions
  readonly arrivals: Arrivals
  readonly record: SubmissionRecord
  readonly faults: Effect.Effect<FaultSettings>
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void, CannotListen>
}

const decodeJson = Schema.decodeResult(Schema.fromJsonString(Schema.Json))
const decodeSettings = Schema.decodeUnknownResult(FaultSettings, { onExcessProperty: "error", errors: "all" })

const replaceFaults = Effect.fnUntraced(function*(controlled: ControlledSandbox, request: IncomingMessage) {
  const body = yield* readBody(request)
  if (body === "too_large") return problemAnswer(413, "body_too_large", "The body is too large")
  if (body === "incomplete") return null
  const json = decodeJson(body.toString("utf8"))
  if (Result.isFailure(json)) return problemAnswer(400, "invalid_json", describeIssues(json.failure))
  const settings = decodeSettings(json.success)
  if (Result.isFailure(settings)) return problemAnswer(422, "invalid_faults", describeIssues(settings.failure))
  return yield* controlled.setFaults(settings.success).pipe(
    Effect.as(jsonAnswer(200, settings.success)),
    Effect.catchTag("CannotListen", ({ message }) => Effect.succeed(problemAnswer(500, "cannot_listen", message)))
  )
})

const truthOf = (controlled: ControlledSandbox, path: string) =>
  Result.match(keyIn(path, "/truth/"), {
    onSuccess: (key) => Effect.map(controlled.submissions.truth(key), (truth) => jsonAnswer(200, truth)),
    onFailure: Effect.succeed
  })

/** Answers a request to the control plane. */
export const control = Effect.fnUntraced(function*(
  controlled: ControlledSandbox,
  request: IncomingMessage,
  response: ServerResponse,
  path: string
) {
  const { method } = request
  if (path === "/faults" && method === "PUT") {
    const answer = yield* replaceFaults(controlled, request)
    return answer === null ? undefined : yield* send(response, answer)
  }
  const isKnown = ["/faults", "/record", "/arrivals", "/truth"].includes(path) || path.startsWith("/truth/")
  if (!isKnown) return yield* send(response, problemAnswer(404, "unknown_endpoint", `Unknown path: ${path}`))
  if (method !== "GET") return yield* send(response, wrongMethod(path === "/faults" ? "GET and PUT" : "GET"))
  if (path === "/faults") return yield* send(response, jsonAnswer(200, yield* controlled.faults))
  if (path === "/record") return yield* sendLines(response, controlled.record.lines())
  if (path === "/arrivals") {
    const lines = controlled.arrivals.all().values().map((arrival) => `${JSON.stringify(arrival)}\n`)
    return yield* sendLines(response, Readable.from(lines))
  }
  if (path !== "/truth") return yield* send(response, yield* truthOf(controlled, path))
  const truths = yield* Effect.forEach(controlled.submissions.keys(), controlled.submissions.truth)
  return yield* sendLines(response, Readable.from(truths.values().map((truth) => `${JSON.stringify(truth)}\n`)))
})
