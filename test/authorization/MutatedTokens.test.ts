import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { decodeJwt, decodeProtectedHeader } from "jose"
import { baseUrl } from "../fixtures/HttpProblem.ts"
import { makeAuthorizationServer } from "./AuthorizationServer.ts"
import { tokenDifferences } from "./Differences.ts"
import { keyFor, type Members, signJwt } from "./Keys.ts"
import { agents, gather } from "./Materials.ts"
import { bearer } from "./Mutations.ts"
import { now } from "./Proofs.ts"
import { tokenMutations } from "./TokenMutations.ts"
import { judge, makePeer, tryAll, verifierOf } from "./Verdicts.ts"

/** Together with the proofs (`MutatedProofs.test.ts`): 100,000. */
const count = 80_000

/** Changes to a good token that leave it good. */
const variations: ReadonlyArray<{ readonly header?: Members; readonly claims?: Members }> = [
  {},
  { header: { typ: "application/at+jwt" } },
  { header: { typ: "AT+JWT" } },
  { header: { kid: undefined } },
  { header: { jku: "https://evil.test/jwks", extra: true } },
  { claims: { aud: ["https://other.test", baseUrl] } },
  { claims: { exp: now() + 300.5 } },
  { claims: { nbf: now() - 1 } },
  { claims: { scope: undefined } },
  { claims: { extra: { deep: [1] } } }
]

describe("Of 80,000 access tokens that come close to a good one", () => {
  it.live(
    "none is accepted, none makes the verifier fail, and oauth4webapi agrees, with ten justified exceptions",
    () =>
      Effect.gen(function*() {
        const materials = yield* gather(yield* makeAuthorizationServer({ agents, resources: [baseUrl] }), baseUrl)
        const peer = yield* Effect.promise(() => makePeer(materials))
        const accepted = new Set<string>()
        yield* tryAll({
          materials,
          mutations: tokenMutations(materials),
          count,
          peer,
          check: ({ kind }, verdict, isAccepted) => {
            assert.strictEqual(verdict, "InvalidCredential")
            if (isAccepted !== true) return
            assert.property(tokenDifferences, kind, "oauth4webapi accepts it")
            accepted.add(kind)
          }
        }).pipe(Effect.provide(verifierOf(materials, 0)))
        assert.sameMembers([...accepted], Object.keys(tokenDifferences))
      }),
    120_000
  )

  it.live("all are made of tokens that both accept, also where what is written otherwise means the same", () =>
    Effect.gen(function*() {
      const materials = yield* gather(yield* makeAuthorizationServer({ agents, resources: [baseUrl] }), baseUrl)
      const peer = yield* Effect.promise(() => makePeer(materials))
      for (const token of materials.tokens) {
        const header = decodeProtectedHeader(token)
        const algorithm = header.alg as "ES256" | "EdDSA" | "PS256"
        for (const variation of variations) {
          const varied = bearer(
            signJwt(
              keyFor(materials.keys, algorithm),
              algorithm,
              { ...header, ...variation.header },
              { ...decodeJwt(token), ...variation.claims }
            )
          )
          const what = JSON.stringify({ algorithm, ...variation })
          assert.strictEqual(
            yield* Effect.provide(judge(materials, varied), verifierOf(materials, 0)),
            "accepted",
            what
          )
          assert.isTrue(yield* Effect.promise(() => peer(varied)), what)
        }
      }
    }))
})
