/**
 * Finds the instruction to the sandbox in the text that a payment carries, such as its statement descriptor:
 * `sandbox {"outcome":"succeeded","settle_after_ms":2000}`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { decodeInstruction, type Instruction } from "../SandboxOutcome.ts"
import { describeIssues } from "../Wire.ts"

const prefix = "sandbox "

const decodeJson = Schema.decodeResult(Schema.fromJsonString(Schema.Json))

/** Undefined: the text has none. Fails with the reason, in one line. */
export const instructionIn = (text: string): Result.Result<Instruction | undefined, string> =>
  text.startsWith(prefix)
    ? Result.mapError(
      Result.flatMap(decodeJson(text.slice(prefix.length)), decodeInstruction),
      (error) => `the instruction to the sandbox: ${describeIssues(error)}`
    )
    : Result.succeed(undefined)
