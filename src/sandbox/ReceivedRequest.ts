/**
 * A request that brings a submission, and the submission in it.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { SandboxRequest, type SubmissionKey } from "./Protocol.ts"
import { reason } from "./Reason.ts"
import { Instant, Instruction } from "./SandboxOutcome.ts"

/** A complete request. */
export interface ReceivedRequest {
  readonly key: SubmissionKey
  readonly body: Buffer
  /** The header `Send-Before`, not parsed. */
  readonly sendBefore: string | undefined
}

/** The submission of a valid request. */
export interface Submission {
  readonly type: string
  readonly instruction: Instruction | undefined
  /** Milliseconds since 1970. Infinite without the header: the submission may be carried out at any time. */
  readonly sendBefore: number
}

const decodeBody = Schema.decodeResult(Schema.fromJsonString(SandboxRequest))
const decodeInstruction = Schema.decodeUnknownResult(Instruction, { onExcessProperty: "error", errors: "all" })
const decodeInstant = Schema.decodeResult(Instant)

/** Parses a request. Fails with the reason, in one line, why it is invalid. */
export const parseSubmission = ({ body, sendBefore }: ReceivedRequest): Result.Result<Submission, string> =>
  Result.gen(function*() {
    const { payload, type } = yield* named("body", decodeBody(body.toString("utf8")))
    const instruction = Predicate.hasProperty(payload, "sandbox")
      ? yield* named("payload.sandbox", decodeInstruction(payload.sandbox))
      : undefined
    const before = sendBefore === undefined ? Infinity : yield* named("Send-Before", decodeInstant(sendBefore))
    return { type, instruction, sendBefore: before }
  })

const named = <A>(part: string, result: Result.Result<A, Schema.SchemaError>) =>
  Result.mapError(result, (error) => `${part}: ${reason(error)}`)
