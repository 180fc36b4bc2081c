/**
 * The gateway refuses 20,000 variants of DPoP proofs, and `oauth4webapi` gives a second opinion on each. The variants
 * start from a real authorization server's token.
 */
import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { proofDifferences } from "../../fixtures/authorization/Differences.ts"
import { makeProof, now, type ProofRequest } from "../../fixtures/authorization/Keys.ts"
import { assertAllAccepted, assertAllRefused, verifierOf } from "../../fixtures/authorization/Verdicts.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { gatherMaterials } from "./Materials.ts"
import { proofVariants } from "./ProofVariants.ts"

/** Together with the tokens (`TokenVariants.test.ts`): 100,000 with `TEST_THOROUGH=1`. */
const count = rounds(2000, 20_000)

/** Changes to a valid DPoP proof that keep it valid. Built at use, because a DPoP proof ages while other tests run. */
const variationsNow = (): ReadonlyArray<Partial<ProofRequest>> => [
  {},
  { header: { typ: "DPOP+JWT" } },
  { header: { typ: "application/dpop+jwt" } },
  { header: { kid: "any", extra: 1 } },
  { claims: { htu: `${baseUrl}/v1/operations?page_size=1#x` } },
  { claims: { htu: "HTTPS://GATEWAY.test:443/v1/operations" } },
  { claims: { iat: now() - 30.5 } },
  { claims: { nonce: "of-another-server", extra: [] } }
]

describe("Of thousands of variants of a valid DPoP proof", () => {
  it.live(
    "none is accepted, none makes the verifier fail, and oauth4webapi agrees with eight justified exceptions",
    () =>
      Effect.gen(function*() {
        const materials = yield* gatherMaterials
        yield* assertAllRefused({
          materials,
          variants: proofVariants(materials),
          count,
          refusal: "InvalidDpopProof",
          differences: proofDifferences
        }).pipe(Effect.provide(verifierOf(materials, "1 minute")))
      })
  )

  it.live("each starts from a DPoP proof that both accept, in every equivalent spelling", () =>
    Effect.gen(function*() {
      const materials = yield* gatherMaterials
      const { agentKey: key, bound: token, url } = materials
      yield* assertAllAccepted(
        materials,
        variationsNow().map((variation) => ({
          attempt: { scheme: "DPoP", token, proof: makeProof({ key, token, url, ...variation }) },
          what: JSON.stringify(variation)
        }))
      )
    }))
})
