import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { proofDifferences } from "../../fixtures/authorization/Differences.ts"
import { makeProof, now, type ProofRequest } from "../../fixtures/authorization/Proofs.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { baseUrl } from "../../fixtures/HttpProblem.ts"
import { gatherMaterials } from "./Materials.ts"
import { proofMutations } from "./ProofForgeries.ts"
import { assertAllAccepted, assertAllRefused, verifierOf } from "./Verdicts.ts"

/** Together with the tokens (`TokenVariants.test.ts`): 100,000 in `npm run test:thorough`. */
const count = rounds(4000, 20_000)

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
        const materials = yield* gatherMaterials
        yield* assertAllRefused({
          materials,
          mutations: proofMutations(materials),
          count,
          refusal: "InvalidDpopProof",
          differences: proofDifferences
        }).pipe(Effect.provide(verifierOf(materials, "1 minute")))
      }),
    120_000
  )

  it.live("all are made of proofs that both accept, also where what is written otherwise means the same", () =>
    Effect.gen(function*() {
      const materials = yield* gatherMaterials
      const { agentKey: key, bound: token, url } = materials
      yield* assertAllAccepted(
        materials,
        variations.map((variation) => ({
          attempt: { scheme: "DPoP", token, proof: makeProof({ key, token, url, ...variation }) },
          what: JSON.stringify(variation)
        }))
      )
    }))
})
