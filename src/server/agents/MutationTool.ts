/** Tools of agents that request mutations. An application adds them to `/mcp`, beside its mutation endpoints. */
import { CallToolResult, InputRequired, type McpRequestContext } from "effect/ai/McpSchema"
import { McpServer } from "effect/ai/McpServer"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { CurrentGrant } from "../../api/Middleware.ts"
import { CurrentKey } from "../../api/MutationEndpoint.ts"
import type { Problem } from "../../api/Problems.ts"
import { type GrantIdentity, GrantUnknown, refusal, standingAt, standingFor } from "../../domain/Grant.ts"
import { canonicalPayload, type IdempotencyKey } from "../../domain/Idempotency.ts"
import { invalidMembers, noteOfCut, strict } from "../../domain/InvalidMember.ts"
import { termsIn, type TermsOf } from "../../domain/Terms.ts"
import {
  adviceOnRefusedMutation,
  adviceOnUnconfirmed,
  meaningOfUnconfirmed,
  type Unconfirmed
} from "../../mcp/Advice.ts"
import { confirm, type Question } from "../../mcp/HumanConfirmation.ts"
import type { JsonObject } from "../../mcp/JsonRpc.ts"
import { answerOf, OperationAnswer, toolResultOf } from "../../mcp/OperationAnswer.ts"
import { KeyArgument } from "../../mcp/OperationTools.ts"
import { makeReport } from "../../mcp/Progress.ts"
import { quotedJson } from "../../mcp/QuotedText.ts"
import { describeTool, failedCall } from "../../mcp/registerTools.ts"
import { Grants } from "../../services/Grants.ts"
import { OperationLedger } from "../../services/OperationLedger.ts"
import { logFailedCall } from "../gate/ProblemResponses.ts"
import { MutationEndpoints, type Work } from "../mutations/MutationEndpoints.ts"
import { CurrentDenial } from "./GrantReads.ts"

/** A tool that requests one kind of work. */
export interface MutationToolOptions<Fields extends Schema.Struct.Fields> extends Omit<Work, "payload" | "terms"> {
  /** The name by which agents call the tool. */
  readonly name: string
  /** What hosts call it. */
  readonly title: string
  /** What it does, for the model. */
  readonly description: string
  /** The payload. Its members are parameters of the tool, beside `idempotency_key`, and its checks hold as in the endpoint. */
  readonly payload: Schema.Struct<Fields>
  /** Finds amount, currency and payee in the payload, as in `mutationEndpoint`. */
  readonly terms?: TermsOf<Schema.Struct.Type<Fields>>
  /** What a person confirms before the request is accepted. The key is shown as well. */
  readonly question: (payload: Schema.Struct.Type<Fields>) => Question
}

/** The call was refused. The text is what the model reads. */
class Refused extends Schema.TaggedError<Refused>()("MutationRefused", { text: Schema.String }) {}

const refuse = (advice: string, problem: Schema.Json) => new Refused({ text: quotedJson({ advice, problem }) })

const invalid = (error: Schema.SchemaError) => {
  const fields = invalidMembers(error).map(({ message, path }) => ({ path: path.join(".") || "arguments", message }))
  return refuse(adviceOnRefusedMutation("invalid_request"), {
    code: "invalid_request",
    detail: `The arguments do not fit the tool. ${noteOfCut(fields)}`.trimEnd(),
    fields
  })
}

const defect = refuse(adviceOnRefusedMutation("internal_error"), {
  code: "internal_error",
  detail: "The tool failed with a defect."
})

const unconfirmed = (code: Unconfirmed) =>
  refuse(adviceOnUnconfirmed(code), { code, detail: meaningOfUnconfirmed(code) })

/** The text of a problem, which also decides the status if the response has not begun. */
const refuseProblem = (problem: Problem) =>
  Effect.flatMap(CurrentDenial, (note) => {
    note(problem)
    const { code, detail, fields } = problem
    return Effect.andThen(
      logFailedCall(problem),
      Effect.fail(refuse(adviceOnRefusedMutation(code), {
        code,
        detail,
        ...fields === null
          ? {}
          : { fields: fields.map(({ message, path }) => ({ path: path.replace(/^body\./, ""), message })) }
      }))
    )
  })

const encoder = new TextEncoder()

/**
 * Names a request of a grant, for the confirmation of it. It is no secret: a client that makes up a confirmation could as well
 * make up the answer of its user.
 */
const stateOf = Effect.fnUntraced(function*(grant: GrantIdentity, tool: string, key: IdempotencyKey, work: Work) {
  const digest = yield* Digest.Digest
  const payload = new TextDecoder().decode(yield* canonicalPayload(work.payload))
  const { client_id, grant_id, subject } = grant
  const named = JSON.stringify([grant_id, client_id, subject, tool, key, work.type, payload])
  return Base64Url.encode(yield* digest.digest(Digest.sha256, encoder.encode(named)))
})

const make = Effect.fnUntraced(function*<Fields extends Schema.Struct.Fields>(options: MutationToolOptions<Fields>) {
  const { name, payload: { fields }, question, scope, terms, type } = options
  const server = yield* McpServer
  const mutations = yield* MutationEndpoints
  const ledger = yield* OperationLedger
  const grants = yield* Grants
  const withDigest = Effect.provideService(Digest.Digest, yield* Digest.Digest)
  const report = yield* makeReport
  const parameters = Schema.Struct({
    ...fields,
    idempotency_key: KeyArgument.pipe(
      Schema.annotateEncoded({
        description:
          "Names this piece of work: choose and store it first, and repeat it with each repetition of the call."
      })
    )
  })
  // The compiler cannot see the key beside fields that it does not know, nor that no schema needs a service.
  const decode = Schema.decodeUnknownExit(
    parameters as unknown as Schema.Codec<{ readonly idempotency_key: IdempotencyKey }>,
    strict
  )
  const decodePayload = Schema.decodeUnknownExit(
    options.payload as unknown as Schema.Codec<Schema.Struct.Type<Fields>>,
    strict
  )

  /** No person is asked about a request that the grant does not permit. The acceptance checks the grant again. */
  const checkGrant = Effect.fnUntraced(function*(identity: GrantIdentity) {
    const grant = yield* Effect.catchTag(
      grants.show(identity.grant_id),
      "GrantNotFound",
      () => Effect.fail(new GrantUnknown())
    )
    const refused = refusal(standingFor(identity, standingAt(grant, scope, yield* DateTime.now), scope), scope)
    if (refused !== null) return yield* refused
  }, Effect.catch(mutations.refuse))

  const request = Effect.fnUntraced(function*(args: unknown) {
    const { idempotency_key: key } = yield* Effect.mapError(decode(args), invalid)
    const { idempotency_key: _, ...members } = args as JsonObject
    // Checks of the payload as a whole are not among its fields.
    const payload = yield* Effect.mapError(decodePayload(members), invalid)
    const work: Work = {
      type,
      scope,
      payload: payload as Schema.Json,
      ...terms === undefined ? {} : { terms: termsIn(terms, payload) }
    }
    const grant = yield* CurrentGrant
    const bound = yield* Effect.catch(ledger.bound({ ...grant, key }), mutations.refuse)
    // A known key creates nothing: the acceptance returns its operation, or refuses another payload.
    if (bound === null) {
      yield* checkGrant(grant)
      const state = yield* withDigest(Effect.catch(stateOf(grant, name, key, work), mutations.refuse))
      const asked = question(payload)
      const confirmed = yield* confirm({ ...asked, facts: { ...asked.facts, "Idempotency key": key } }, state, report)
      if (confirmed instanceof InputRequired) return confirmed
      if (confirmed !== "confirmed") return yield* unconfirmed(confirmed)
    }
    const { body } = yield* Effect.provideService(mutations.accept(work), CurrentKey, key)
    return new CallToolResult(toolResultOf(yield* answerOf(body)) as never)
  })

  const handle = (args: unknown) =>
    request(args).pipe(
      Effect.catch((error) => error instanceof Refused ? Effect.fail(error) : refuseProblem(error)),
      Effect.catch(({ text }) => Effect.succeed(failedCall(text))),
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.as(Effect.logError("Tool failed with a defect", cause), failedCall(defect.text))
      )
    )

  const description = `${options.description} A person is asked to confirm it. A repetition with the same key and the `
    + "same arguments returns the same operation, and nothing is sent twice."
  yield* server.addTool({
    tool: describeTool(name, { title: options.title, description, parameters, success: OperationAnswer }, false),
    annotations: Context.empty(),
    // The endpoint provides the grant of the call, which the types of the server cannot know.
    handle: handle as (args: unknown) => Effect.Effect<CallToolResult | InputRequired, never, McpRequestContext>
  })
})

/**
 * An MCP tool that requests mutations, for `McpRoutes`. Its call needs an idempotency key, as an HTTP request
 * does. A person confirms it, and the answer is the operation with the advice on it. A known key returns its operation without a
 * question, or fails if it belongs to another request. The grant needs the scope.
 */
export const mutationTool = <Fields extends Schema.Struct.Fields>(
  options: MutationToolOptions<Fields>
): Layer.Layer<never, never, McpServer | MutationEndpoints | OperationLedger | Grants | Digest.Digest> =>
  Layer.effectDiscard(make(options))
