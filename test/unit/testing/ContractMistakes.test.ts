/**
 * The conformance kit finds the mistakes that adapters make. Each test plants one in the adapter for the sandbox, and expects the
 * case that is about it to name the broken rule.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import {
  namesNothing,
  NotSent,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../../../src/submission/providers/ProviderAdapter.ts"
import {
  asksById,
  byHand,
  careless,
  caseNamed,
  evidence,
  type Mistake,
  onAnswer,
  onFailure,
  onNames,
  onStatus,
  readingAt,
  rejected,
  token,
  withMistake
} from "../../fixtures/testing/AdapterMistakes.ts"

const mistakes: ReadonlyArray<readonly [what: string, caught: string, rule: RegExp, mistake: Mistake]> = [
  [
    "sends an amount in cents as one in euros",
    "submit: the bank gets exactly the expected request, of payload 1",
    /body must be .*"amount":"12.00".* got .*"amount":"1200"/,
    ({ submit }) => ({
      submit: (operation, payload) => submit(operation, { ...payload as Schema.JsonObject, amount: "1200" })
    })
  ],
  [
    "sends again after a failure",
    "submit: a bank that closes the connection after it took the request leaves the outcome uncertain",
    /At most one request/,
    ({ submit }) => ({ submit: (operation, payload) => Effect.retry(submit(operation, payload), { times: 1 }) })
  ],
  [
    "follows a redirect with another POST",
    "submit: a bank that redirects with 307 leaves the outcome uncertain",
    /At most one request/,
    byHand
  ],
  [
    "reads bodies of any length",
    "submit: a bank that sends a body without end leaves the outcome uncertain",
    /limit the size/,
    byHand
  ],
  [
    "sends again half a minute later, in the background",
    "submit: an acknowledgement is Acknowledged",
    /At most one request/,
    ({ submit }) => ({
      submit: (operation, payload) =>
        Effect.tap(
          submit(operation, payload),
          () => Effect.forkDetach(Effect.delay(submit(operation, payload), "30 seconds"), { startImmediately: true })
        )
    })
  ],
  [
    "takes a timeout for a request that was not sent",
    "submit: a bank that never answers leaves the outcome uncertain",
    /must say Uncertain/,
    onFailure(/no response within/, (reason) => Effect.fail(new NotSent({ reason })))
  ],
  [
    "takes any 422 for a refusal",
    "submit: a bank that answers 422 with the page of a proxy leaves the outcome uncertain",
    /must say Uncertain/,
    onFailure(/status 422/, () => Effect.succeed(rejected()))
  ],
  [
    "takes any JSON with the status of its refusals for a refusal",
    "submit: a foreign body with the status of a refusal, {}, leaves the outcome uncertain",
    /4xx alone is no refusal/,
    careless(422)
  ],
  [
    "takes any JSON with a 400 for a refusal, of which the kit was not told",
    "submit: a bank that answers 400 with {\"message\":\"Bad Request\"} has not refused",
    /4xx alone is no refusal/,
    careless(400)
  ],
  [
    "takes half a body for a success",
    "submit: a bank that closes the connection within the body of its answer leaves the outcome uncertain",
    /must say Uncertain/,
    onFailure(/./, () => Effect.succeed(SubmissionAnswer.Succeeded({ names: namesNothing, evidence })))
  ],
  [
    "takes a wrong key for a refusal of the payment",
    "submit: refused credentials never end the operation, because an operator can repair them",
    /must say NotSent or Uncertain/,
    onFailure(/status 401/, () => Effect.succeed(rejected()))
  ],
  [
    "says of a wrong key that no byte left",
    "submit: refused credentials never end the operation, because an operator can repair them",
    /NotSent without isRefused/,
    onFailure(/status 401/, (reason) => Effect.fail(new NotSent({ reason, isLocal: true })))
  ],
  [
    "says of a wrong key that the bank is unavailable",
    "submit: refused credentials never end the operation, because an operator can repair them",
    /NotSent needs isLocal/,
    onFailure(/status 401/, (reason) => Effect.fail(new NotSent({ reason, isRefused: true })))
  ],
  [
    "takes a forbidden key for a refusal for now",
    "submit: refused credentials never end the operation, because an operator can repair them, answer 2",
    /NotSent needs isLocal/,
    onFailure(/status 403/, (reason) => Effect.fail(new NotSent({ reason, isRefused: true })))
  ],
  [
    "takes a wrong path for a refusal",
    "submit: a wrong path never ends the operation, because an operator can repair it, answer 3",
    /must say NotSent or Uncertain/,
    careless(404)
  ],
  [
    "takes any JSON with a 404 for \"not found\"",
    "readStatus: a wrong path, such as the 404 of a proxy, proves nothing, however late, answer 2",
    /must say NotProven/,
    onStatus((answer) => answer._tag === "NotFound" ? { ...answer, evidence } : answer)
  ],
  [
    "takes a known key for a refusal",
    "submit: a known idempotency key is no refusal, because the first request may have been carried out",
    /must say Uncertain or Acknowledged or Succeeded/,
    onFailure(/knows the key/, () => Effect.succeed(rejected()))
  ],
  [
    "copies the id from the request",
    "submit: the names of a foreign acknowledgement are copied from the answer",
    /never from the request/,
    onAnswer(({ names }, { id }) => ({ names: { ...names, operation_id: id } }))
  ],
  [
    "copies the id of a status read from the request",
    "readStatus: the names of a foreign success are copied from the answer",
    /names\.operation_id must be copied from the answer, never/,
    onNames(({ id }) => ({ operation_id: id }))
  ],
  [
    "copies the reference of a status read from the request",
    "readStatus: the names of a foreign pending operation are copied from the answer",
    /names\.reference must be copied from the answer, never/,
    onNames((_, reference) => ({ reference }))
  ],
  [
    "reports no name",
    "readStatus: a success is Proven as succeeded",
    /names\.operation_id must be copied from the answer, which contains it/,
    onNames(() => namesNothing)
  ],
  [
    "makes a key for each attempt",
    "submit: each attempt of an operation has its id as idempotency key, and another operation has another",
    /must be the operation's id/,
    ({ submit }) => {
      let attempts = 0
      return {
        submit: (operation, payload) =>
          submit({ ...operation, id: operation.id.replace(/.$/, String(attempts++)) as never }, payload)
      }
    }
  ],
  [
    "sends after send_before",
    "submit: nothing is sent after send_before",
    /Nothing may be sent/,
    ({ submit }) => ({ submit: (operation, payload) => submit({ ...operation, send_before: null }, payload) })
  ],
  [
    "is uncertain about a bank that it could not reach",
    "submit: nothing was sent if the bank refuses the connection",
    /must say NotSent/,
    onFailure(/ECONNREFUSED/, (reason) => Effect.fail(new Uncertain({ reason })))
  ],
  [
    "ends operations while the name of the bank does not resolve",
    "submit: nothing was sent if the name of the bank does not resolve",
    /isPermanent ends the operation/,
    onFailure(/./, (reason) => Effect.fail(new NotSent({ reason, isPermanent: true })))
  ],
  [
    "writes the token into the reason",
    "submit: a bank that answers 500 and repeats the request with its headers leaves the outcome uncertain",
    /no credential/,
    onFailure(/./, (reason) => Effect.fail(new Uncertain({ reason: `${reason}, with ${token}` })))
  ],
  [
    "writes the payload into the reason",
    "submit: a bank that answers 500 with the page of a proxy leaves the outcome uncertain",
    /no part of the payload/,
    onFailure(/./, (_, payload) => Effect.fail(new Uncertain({ reason: `cannot pay ${JSON.stringify(payload)}` })))
  ],
  [
    "takes one of the states that end without money for a success",
    "readStatus: a failure is Proven as failed, with a declared code, answer 2",
    /must say Proven with failed/,
    onStatus((answer) =>
      answer._tag === "Proven" && answer.state === "failed" && answer.code === "insufficient_funds"
        ? StatusAnswer.Proven({ state: "succeeded", names: answer.names, evidence })
        : answer
    )
  ],
  [
    "passes the code of the bank on, which it does not declare",
    "submit: a refusal is Rejected, with a declared code",
    /declares in `failures`/,
    onAnswer(() => ({ code: "E-51" }))
  ],
  [
    "refuses with a code of the gateway",
    "submit: a refusal is Rejected, with a declared code",
    /is reserved/,
    onAnswer(() => ({ code: "provider_never_received" }))
  ],
  [
    "takes an unknown operation for a failed one",
    "readStatus: an unknown operation is NotFound",
    /must say NotFound/,
    onStatus((answer) =>
      answer._tag === "NotFound"
        ? StatusAnswer.Proven({
          state: "failed",
          code: "unknown",
          names: answer.names,
          evidence
        })
        : answer
    )
  ],
  [
    "takes the 404 of a proxy for the end",
    "readStatus: a wrong path, such as the 404 of a proxy, proves nothing, however late",
    /must say NotProven/,
    onStatus((answer) =>
      answer._tag === "NotFound" && answer.evidence === null
        ? StatusAnswer.NotFound({ names: answer.names, evidence })
        : answer
    )
  ],
  [
    "follows a redirect of a status read",
    "readStatus: a bank that redirects with 302 proves nothing",
    /must not follow a redirect/,
    (_, __, baseUrl) => ({
      readStatus: ({ id }) =>
        Effect.promise(async () => {
          const response = await fetch(`${baseUrl}/mutations/${id}`)
          await response.text()
          return StatusAnswer.NotProven({ reason: "unclear", detail: "not understood" })
        })
    })
  ],
  [
    "reads the status by the reference alone, also where there is none",
    asksById,
    /must contain the operation's id.*path, query, body or the header of the idempotency key/,
    readingAt((_, reference) => `/mutations/${reference}`)
  ],
  [
    "reads the status by a reference that is null, with the id in a header for tracing",
    asksById,
    /must contain the operation's id/,
    readingAt((_, reference) => `/mutations/${reference}`, ({ id }) => ({ "x-request-id": id }))
  ],
  [
    "reads the status by a reference that is empty, with the id in a header for tracing",
    asksById,
    /must contain the operation's id/,
    readingAt((_, reference) => `/mutations/${reference ?? ""}`, ({ id }) => ({ "x-request-id": id }))
  ],
  [
    "reads the status by a reference that is zero, with the id in a header for tracing",
    asksById,
    /must contain the operation's id/,
    readingAt((_, reference) => `/mutations/${reference ?? 0}`, ({ id }) => ({ "x-request-id": id }))
  ],
  [
    "reads the status of one operation for all",
    asksById,
    /must contain the operation's id/,
    readingAt(() => "/mutations/019aa4f0-5c00-7b1e-8d2f-0a1b2c3d4e5f")
  ],
  [
    "says that it searches a list, of a bank without lists",
    asksById,
    /set isList/,
    () => ({ readsUnfiltered: true })
  ],
  [
    "reads the status by another submission",
    "readStatus: a success is Proven as succeeded",
    /may only send GET/,
    ({ readStatus, submit }) => ({
      readStatus: (operation, reference) =>
        Effect.andThen(Effect.ignore(submit(operation, {})), readStatus(operation, reference))
    })
  ]
]

describe("The conformance kit finds an adapter that", () => {
  for (const [what, caught, rule, mistake] of mistakes) {
    it.effect(what, () =>
      Effect.map(Effect.flip(caseNamed(caught, withMistake(mistake)).run), ({ message }) => {
        const [name, broken, said, saw] = message.split("\n")
        assert.strictEqual(name, caught)
        assert.match(broken!, rule)
        assert.match(said!, /^ {2}the adapter said: [A-Z][A-Za-z]+ \{/)
        assert.match(saw!, /^ {2}the bank saw: \d+ requests, \d+ bytes/)
        assert.notInclude(message, token)
      }))
  }
})
