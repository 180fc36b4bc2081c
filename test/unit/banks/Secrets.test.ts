/**
 * No log line, span or error of a worker has a credential, key or token of a bank, or the signature of a request. The adapters are real.
 * The bank repeats what it got in each answer, as do the errors of the client.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted, References, Tracer } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { inspect } from "node:util"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import type { ProviderOperation } from "../../../src/submission/providers/ProviderAdapter.ts"
import { fencedBanks, nowhere, secret, startAdapter } from "../../fixtures/banks/BankClient.ts"
import { optionsAt, otherRequests, payment, signingKey } from "../../fixtures/banks/openBankingUk.ts"
import { makeWorld } from "../../fixtures/submission/World.ts"

const banks = {
  ...fencedBanks,
  "open-banking-uk": {
    adapter: OpenBankingUk.at(optionsAt(nowhere)),
    type: OperationType.make("domestic_payment"),
    payload: payment
  }
}

/** Headers of requests whose values are secret. */
const secretHeaders = ["authorization", "apca-api-key-id", "apca-api-secret-key", "x-jws-signature"]

/** Lines of the key in PEM, without its frame. */
const keyLines = Redacted.value(signingKey).split("\n").filter((line) => line.length > 20 && !line.startsWith("-"))

/** What the bank says to a request of the adapter itself. Null: the connection fails. */
type Failure = (echo: string) => Response | null

const json = (status: number, body: object) => Response.json(body, { status })

const failures: Readonly<Record<string, Failure>> = {
  "a wrong key": (echo) => json(401, { type: "invalid_api_key_error", status: 401, title: echo, code: 40110000 }),
  "a failure of TLS": () => null,
  "a refused request": (echo) =>
    json(400, {
      type: "invalid_parameters_error",
      status: 400,
      title: echo,
      code: 40010001,
      Errors: [{ ErrorCode: echo }]
    }),
  "a forbidden request": (echo) =>
    json(403, { type: "private_feature_error", status: 403, title: echo, code: 40310000 }),
  "an invalid order": (echo) => json(422, { code: 42210000, message: echo }),
  "an undeclared answer": (echo) => json(404, { echo }),
  "a page": (echo) => new Response(`<p>${echo}</p>`, { status: 502, headers: { "content-type": "text/html" } })
}

/** A bank, and the secrets that the requests to it had. */
const bankOf = (failure: Failure, isTokenRefused: boolean) => {
  const seen = new Set<string>([secret, "token-of-the-payer-for-consent-1", "token-of-the-client", ...keyLines])
  const fail = (request: HttpClientRequest.HttpClientRequest, echo: string) =>
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.TransportError({
        request,
        description: echo,
        cause: Object.assign(new Error(echo), { code: "ERR_TLS_CERT_ALTNAME_INVALID", headers: request.headers })
      })
    })
  const client = HttpClient.make((request) =>
    Effect.gen(function*() {
      for (const name of secretHeaders) {
        const value = request.headers[name]
        if (value !== undefined) seen.add(value)
        // Also without the scheme, and the parts of a signature.
        for (const part of value?.split(/[ .]+/u) ?? []) if (part.length > 12) seen.add(part)
      }
      const echo = JSON.stringify({ headers: request.headers, secrets: [...seen] })
      const path = new URL(request.url).pathname
      const other = path === "/token" && isTokenRefused
        ? { status: 500, body: { error: echo } }
        : otherRequests({ path })
      const answer = other === undefined ? failure(echo) : json(other.status, other.body as object)
      if (answer === null) return yield* fail(request, echo)
      return HttpClientResponse.fromWeb(request, answer)
    })
  )
  return { seen, layer: Layer.succeed(HttpClient.HttpClient, client) }
}

/** What an exporter sends of a span. The value of a success stays in the process. */
const exported = ({ attributes, events, name, status }: Tracer.NativeSpan) => ({
  name,
  attributes: [...attributes],
  events,
  failure: status._tag === "Ended" && Exit.isFailure(status.exit) ? status.exit.cause : null
})

describe.each(Object.entries(banks))("A worker of %s", (_, { adapter, payload, type }) => {
  it.effect.each([
    ...Object.entries(failures),
    ["a failure of the token endpoint", failures["an undeclared answer"]!]
  ] as ReadonlyArray<[string, Failure]>)("tells no secret after %s", ([name, failure]) =>
    Effect.gen(function*() {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const { layer, seen } = bankOf(failure, name.includes("token endpoint"))
      const { readStatus, submit } = yield* startAdapter(adapter, layer)
      const typed = (operation: ProviderOperation) => ({ ...operation, type })
      const errors: Array<unknown> = []
      const note = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.onExit(effect, (exit) => Effect.sync(() => Exit.isFailure(exit) && errors.push(exit.cause)))
      const world = yield* makeWorld({
        submit: (_, operation) => note(submit(typed(operation), payload)),
        read: (_, operation) => note(readStatus(typed(operation), null, payload))
      })
      yield* Effect.gen(function*() {
        // The same failure of a status read, also if the submission was refused for ever.
        const id = yield* world.acceptOne
        yield* world.work
        errors.push(yield* readStatus(typed(world.recordOf(id).operation as never), null, payload))
        yield* world.reconcile
      }).pipe(
        Effect.provideService(References.MinimumLogLevel, "All"),
        Effect.provideService(References.TracerEnabled, true),
        Effect.withSpan("test"),
        Effect.provideService(Tracer.Tracer, tracer)
      )
      const told = [world.logs, spans.map(exported), errors.map(withoutEvidence)].map((all) =>
        inspect(all, { depth: 30, maxArrayLength: null, maxStringLength: null, breakLength: Infinity })
      ).join("\n")
      assert.isNotEmpty(spans)
      assert.isNotEmpty(world.logs, "a failure is logged")
      for (const one of seen) assert.isFalse(told.includes(one), `${one} in ${told.slice(0, 2000)}`)
    }))
})

/** The history keeps the bank's answer as evidence, which operators alone read. */
const withoutEvidence = (error: unknown): unknown =>
  typeof error === "object" && error !== null && "evidence" in error ? { ...error, evidence: null } : error
