/**
 * The gateway refuses 80,000 variants of access tokens, and `oauth4webapi` gives a second opinion on each. The variants
 * start from a real authorization server's tokens.
 */
import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { decodeJwt, decodeProtectedHeader } from "jose"
import { tokenDifferences } from "../../fixtures/authorization/Differences.ts"
import { keyFor, type Members, now, signJwt } from "../../fixtures/authorization/Keys.ts"
import { bearer } from "../../fixtures/authorization/Variants.ts"
import { assertAllAccepted, assertAllRefused, verifierOf } from "../../fixtures/authorization/Verdicts.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { gatherMaterials } from "./Materials.ts"
import { tokenVariants } from "./TokenVariants.ts"

/** Together with the proofs (`ProofVariants.test.ts`): 100,000 with `TEST_THOROUGH=1`. */
const count = rounds(6000, 80_000)

/** Changes to a good token that keep it good. */
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

describe("Of 80,000 variants of a good access token", () => {
  it.live(
    "none is accepted, none makes the verifier fail, and oauth4webapi agrees with ten justified exceptions",
    () =>
      Effect.gen(function*() {
        const materials = yield* gatherMaterials
        yield* assertAllRefused({
          materials,
          variants: tokenVariants(materials),
          count,
          refusal: "InvalidCredential",
          differences: tokenDifferences
        }).pipe(Effect.provide(verifierOf(materials, 0)))
      })
  )

  it.live("each starts from a token that both accept, in every equivalent spelling", () =>
    Effect.gen(function*() {
      const materials = yield* gatherMaterials
      const attempts = materials.tokens.flatMap((token) => {
        const header = decodeProtectedHeader(token)
        const algorithm = header.alg as "ES256" | "EdDSA" | "PS256"
        return variations.map((variation) => ({
          attempt: bearer(
            signJwt(
              keyFor(materials.keys, algorithm),
              algorithm,
              { ...header, ...variation.header },
              { ...decodeJwt(token), ...variation.claims }
            )
          ),
          what: JSON.stringify({ algorithm, ...variation })
        }))
      })
      yield* assertAllAccepted(materials, attempts)
    }))
})
