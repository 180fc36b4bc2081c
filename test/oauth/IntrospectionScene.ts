/**
 * Verifiers that ask an authorization server, and what it answers.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { ClientAuthentication } from "../../src/oauth/ClientAuthentication.ts"
import { type IntrospectionSettings, makeIntrospection } from "../../src/oauth/Introspection.ts"
import { issuerSettings } from "../../src/oauth/Issuer.ts"
import { type FakeServer, layerOf, makeFakeServer, type Received } from "./FakeServer.ts"
import { audience, type Changes, claimsOf, epoch, issuer } from "./Issuing.ts"

const client: ClientAuthentication = {
  method: "client_secret_basic",
  clientId: "gateway",
  secret: Redacted.make("hush")
}

export const settings: IntrospectionSettings = {
  ...issuerSettings({ issuer, audience }),
  endpoint: `${issuer}/introspect`,
  client,
  timeout: Duration.seconds(3),
  answerTimeToLive: Duration.zero
}

export const path = "/introspect"

/** The token that a question is about. */
export const tokenIn = ({ body }: Received): string => new URLSearchParams(body).get("token") ?? ""

/** The tokens that the server was asked about, in order. */
export const tokensAsked = ({ requests }: FakeServer): ReadonlyArray<string> =>
  requests.filter(({ method }) => method === "POST").map(tokenIn)

/** What the server says of a good token. */
export const answerOf = (changes: Changes = {}) => ({ active: true, token_type: "Bearer", ...claimsOf(epoch, changes) })

export const makeScene = Effect.fnUntraced(function*(changes: Partial<IntrospectionSettings> = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const server = makeFakeServer()
  server.serve(path, answerOf())
  return { server, verify: yield* makeVerifier(server, changes) }
})

/** Waits for work that the clock of the test does not drive: digests and bodies. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.promise(async () => {
    while (!condition()) await new Promise((resolve) => setImmediate(resolve))
  })

/** Asks again until it is so. */
export const eventually = (question: Effect.Effect<string>, verdict: string): Effect.Effect<void> =>
  Effect.asVoid(Effect.repeat(
    Effect.tap(question, () => Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
    { until: (became) => became === verdict }
  ))

const makeVerifier = (server: FakeServer, changes: Partial<IntrospectionSettings>) =>
  Effect.map(
    Effect.provide(makeIntrospection({ ...settings, ...changes }), layerOf(server)),
    (verify) => (token: string) => verify(Redacted.make(token))
  )

export const judged = (effect: Effect.Effect<unknown, { readonly _tag: string }>) =>
  Effect.match(effect, { onSuccess: () => "accepted", onFailure: ({ _tag }) => _tag })

export const eachAnswer = (answers: ReadonlyArray<unknown>, verdict: string) =>
  Effect.forEach(answers, (answer) =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.serve(path, () => answer instanceof Response ? answer.clone() : answer)
      assert.strictEqual(yield* judged(verify("t")), verdict, JSON.stringify(answer))
    }))

export const eachChange = (changes: ReadonlyArray<Changes>, verdict: string) =>
  eachAnswer(changes.map(answerOf), verdict)
