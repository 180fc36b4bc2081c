/**
 * Requests with variants of tokens and DPoP proofs are never accepted, never 5xx, and never logged. The tests send some of them
 * over HTTP to a gateway on the real PostgreSQL. `TokenVariants` and `ProofVariants` give all of them to the verifier.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { authorizedGateway, server, type Setup } from "../../fixtures/authorization/AuthorizedGateway.ts"
import { makeProof } from "../../fixtures/authorization/Keys.ts"
import type { Attempt, Materials } from "../../fixtures/authorization/Variants.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../fixtures/http/HttpObserver.ts"
import { assertProblem, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import type { Answer } from "../../fixtures/http/HttpWire.ts"
import { agents, gather } from "./Materials.ts"
import { proofVariants } from "./ProofVariants.ts"
import { tokenVariants } from "./TokenVariants.ts"

const target = "/v1/operations"

const setup: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }] })
}

/** Header values that the test client can send: visible characters, and inner spaces and tabs, up to 8192 bytes. */
const isFieldValue = (text: string) =>
  /^[\x21-\xff](?:[\t\x20-\xff]*[\x21-\xff])?$/.test(text) && !text.includes("\x7f") && text.length <= 8192

/** Sends it through the client if that is possible, and as raw bytes otherwise. */
const attemptOver = ({ send, wire }: Gateway["Service"], { proof, scheme, token }: Attempt): Effect.Effect<Answer> => {
  const headers = { authorization: `${scheme} ${token}`, ...proof === null ? {} : { dpop: proof } }
  if (Object.values(headers).every(isFieldValue)) return send(target, { headers })
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("")
  return Effect.scoped(Effect.flatMap(wire, (connection) => {
    connection.send(Buffer.from(`GET ${target} HTTP/1.1\r\nHost: gateway.test\r\n${lines}\r\n`, "utf8"))
    return Effect.map(Effect.promise(() => connection.next()), (answer) => {
      assert.isNotNull(answer, "the gateway closed the connection without a response")
      return answer!
    })
  }))
}

/** Good credentials still read, so the variants were refused because of their own content. */
const assertGoodOnesRead = Effect.fnUntraced(function*({ agentKey: key, bound, tokens, url }: Materials) {
  const { send } = yield* Gateway
  for (const token of tokens) assert.strictEqual((yield* send(target, { token })).status, 200)
  const headers = { authorization: `DPoP ${bound}`, dpop: makeProof({ key, token: bound, url }) }
  assert.strictEqual((yield* send(target, { headers })).status, 200)
})

/** The parts of tokens and DPoP proofs that are long enough to be unique in other text. */
const secretsOf = (attempts: ReadonlyArray<Attempt>): ReadonlySet<string> =>
  new Set(
    attempts.flatMap(({ proof, token }) => [token, proof ?? ""])
      .flatMap((text) => text.split(/[^\w-]+/))
      .filter((part) => part.length >= 20)
  )

layer(authorizedGateway(setup), { excludeTestServices: true })("Of hundreds of requests over HTTP", (it) => {
  it.effect("none is accepted, none gets a 5xx response, and none writes any part of a credential to the log", () =>
    Effect.gen(function*() {
      const materials = yield* gather(yield* server(), baseUrl)
      const before = (yield* Observer).lines.length
      const gateway = yield* Gateway
      const variants = fc.oneof(tokenVariants(materials), proofVariants(materials))
      const sample = fc.sample(variants.filter(({ kind }) => !kind.includes("white space around it")), { numRuns: 500 })
      const attempts = sample.map(({ kind, make }) => ({ kind, attempt: make(materials) }))
      yield* Effect.forEach(attempts, ({ attempt, kind }) =>
        Effect.map(attemptOver(gateway, attempt), (answer) => {
          const { code } = assertProblem(answer)
          // On a busy machine the search for the key may take longer than the gateway waits.
          if (code !== "authorization_unavailable" || !kind.includes("unknown key")) {
            assert.isBelow(answer.status, 500, kind)
          }
        }), { concurrency: 16 })
      const log = (yield* Observer).lines.slice(before).map(({ text }) => text).join("\n")
      assert.isAbove(log.length, 500)
      for (const secret of secretsOf(attempts.map(({ attempt }) => attempt))) {
        assert.isFalse(log.includes(secret), `a log line holds ${secret}`)
      }
      yield* assertGoodOnesRead(materials)
    }))
})

layer(authorizedGateway({ ...setup, spans: true }), { excludeTestServices: true })("Trace spans", (it) => {
  it.effect("hold no part of a token or of a DPoP proof, for good and refused requests", () =>
    Effect.gen(function*() {
      const materials = yield* gather(yield* server(), baseUrl)
      yield* assertGoodOnesRead(materials)
      const gateway = yield* Gateway
      const good = {
        scheme: "DPoP",
        token: materials.bound,
        proof: makeProof({ ...materials, key: materials.agentKey, token: materials.bound })
      } as const
      const attempts = [good, good, { ...good, scheme: "Bearer" }] as const
      for (const attempt of attempts) yield* attemptOver(gateway, attempt)
      const spans = (yield* Observer).spans.map(({ attributes, events, name }) =>
        JSON.stringify([name, [...attributes], events.map(([name, , more]) => [name, more])])
      )
      assert.isAbove(spans.length, 4)
      for (const secret of secretsOf(attempts)) assert.isFalse(spans.some((text) => text.includes(secret)), secret)
    }))
})
