import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { baseUrl } from "../fixtures/HttpProblem.ts"
import { makeAuthorizationServer } from "./AuthorizationServer.ts"
import { proofDifferences } from "./Differences.ts"
import { agents, gather } from "./Materials.ts"
import { proofMutations } from "./ProofMutations.ts"
import { makeProof, now, type ProofRequest } from "./Proofs.ts"
import { judge, makePeer, tryAll, verifierOf } from "./Verdicts.ts"

/** Together with the tokens (`MutatedTokens.test.ts`): 100,000. */
const count = 20_000

/** Changes to a good proof that leave it good. */
const variations: ReadonlyArray<Partial<ProofRequest>> = [
  {},
  { header: { typ: "DPOP+JWT" } },
  { header: { typ: "application/dpop+jwt" } },
  { header: { kid: "any", extra: 1 } },
  { claims: { htu: `${baseUrl}/v1/operations?page_size=1#x` } },
  { claims: { htu: "HTTPS://GATEWAY.test:443/v1/operations" } },
  { claims: { iat: now() - 30.5 } },
  { claims: { nonce: "of-another-server", extra: [] } }
]

describe("Of 20,000 DPoP proofs that come close to a good one", () => {
  it.live(
    "none is accepted, none makes the verifier fail, and oauth4webapi agrees, with eight justified exceptions",
    () =>
      Effect.gen(function*() {
        const materials = yield* gather(yield* makeAuthorizationServer({ agents, resources: [baseUrl] }), baseUrl)
        const peer = yield* Effect.promise(() => makePeer(materials))
        const accepted = new Set<string>()
        yield* tryAll({
          materials,
          mutations: proofMutations(materials),
          count,
          peer,
          check: ({ kind }, verdict, isAccepted) => {
            assert.strictEqual(verdict, "InvalidProof")
            if (isAccepted !== true) return
            assert.property(proofDifferences, kind, "oauth4webapi accepts it")
            accepted.add(kind)
          }
        }).pipe(Effect.provide(verifierOf(materials, "1 minute")))
        assert.sameMembers([...accepted], Object.keys(proofDifferences))
      }),
    120_000
  )

  it.live("all are made of proofs that both accept, also where what is written otherwise means the same", () =>
    Effect.gen(function*() {
      const materials = yield* gather(yield* makeAuthorizationServer({ agents, resources: [baseUrl] }), baseUrl)
      const peer = yield* Effect.promise(() => makePeer(materials))
      const { agentKey: key, bound: token, url } = materials
      for (const variation of variations) {
        const attempt = { scheme: "DPoP", token, proof: makeProof({ key, token, url, ...variation }) } as const
        const what = JSON.stringify(variation)
        assert.strictEqual(yield* Effect.provide(judge(materials, attempt), verifierOf(materials, 0)), "accepted", what)
        assert.isTrue(yield* Effect.promise(() => peer(attempt)), what)
      }
    }))
})
