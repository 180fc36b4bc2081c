/**
 * Asks the person behind an agent to confirm a request (MCP, "Elicitation").
 *
 * The client shows the question, and reports the answer. The gateway cannot see the person: a confirmation is as good as the
 * client that the person chose.
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Unconfirmed } from "./Advice.ts"
import { isObject } from "./JsonRpc.ts"
import { longestSilence, type Report } from "./Progress.ts"
import { quotedJson } from "./QuotedText.ts"

/** What the person is asked. */
export interface Question {
  /** A question in words of the application alone, without text of the agent. */
  readonly question: string
  /** What the person decides on, by its label. The values may be text of the agent: they are shown in quotes. */
  readonly facts: Readonly<Record<string, string>>
}

/** How long the person has to answer a client of version 2025-11-25, whose call is open all the time. In seconds. */
export const longestAnswer = 300

const name = "confirmation"

/**
 * The text of the question. A value is one line in quotes, with visible escapes for hidden characters, so no value can look like a
 * part of the question.
 */
export const textOf = ({ facts, question }: Question): string =>
  [question, "", ...Object.entries(facts).map(([label, value]) => `${label}: ${quotedJson(value)}`)].join("\n")

/** An answer without the field is no confirmation, because some clients accept a form that the person never saw. */
const formOf = (question: Question) => ({
  mode: "form" as const,
  message: textOf(question),
  requestedSchema: {
    type: "object" as const,
    properties: { confirm: { type: "boolean" as const, title: "I confirm this" } },
    required: ["confirm"]
  }
})

const isConfirmed = ({ action, content }: Readonly<Record<string, unknown>>) =>
  action === "accept" && isObject(content) && content["confirm"] === true

/** The answer to a question within the call, as version 2025-11-25 has it. Null: none came. */
const elicit = (
  { getClient }: McpSchema.McpServerClient["Service"],
  form: ReturnType<typeof formOf>,
  report: Report
) =>
  Effect.gen(function*() {
    const client = yield* getClient
    let waited = 0
    const reports = Effect.forever(Effect.suspend(() => {
      waited += longestSilence
      return Effect.delay(report(waited, longestAnswer, "Waiting for the confirmation"), `${longestSilence} seconds`)
    }))
    return yield* Effect.raceFirst(client.elicit(McpSchema.ElicitRequestFormParams.make(form)), reports)
  }).pipe(
    Effect.scoped,
    // A client may refuse the question, or answer it with anything.
    Effect.catchCause((cause) => Cause.hasInterrupts(cause) ? Effect.interrupt : Effect.succeed(null))
  )

/**
 * Asks the person. Version 2026-07-28 has no open call: the result is then the question (`InputRequired`), and the client repeats
 * the call with the answer. `state` names the request, and the answer counts for this request alone.
 */
export const confirm = Effect.fnUntraced(function*(
  question: Question,
  state: string,
  report: Report
): Effect.fn.Return<"confirmed" | Unconfirmed | McpSchema.InputRequired, never, McpSchema.McpRequestContext> {
  const form = formOf(question)
  const client = yield* Effect.serviceOption(McpSchema.McpServerClient)
  if (Option.isSome(client)) {
    const answer = yield* elicit(client.value, form, report)
    if (answer === null) return "confirmation_missing"
    return isConfirmed({ ...answer }) ? "confirmed" : "confirmation_declined"
  }
  const { inputResponses, requestState } = yield* McpSchema.McpRequestContext
  const answer = inputResponses?.[name]
  if (answer === undefined) {
    return new McpSchema.InputRequired({
      inputRequests: { [name]: { method: "elicitation/create", params: form } },
      requestState: state
    })
  }
  if (requestState !== state) return "confirmation_mismatch"
  return isConfirmed(answer) ? "confirmed" : "confirmation_declined"
})
