/** Verdicts on a credential: by the verifier of the gateway, and by the independent `oauth4webapi`. */
import { assert } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import * as fc from "fast-check"
import * as oauth from "oauth4webapi"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { ProofReplay } from "../../../src/services/verification/ProofReplay.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { type Attempt, type Materials, type Variant, variantSeed } from "./Variants.ts"

/** The tag of the gateway's error. A defect becomes a 500. */
type Verdict = "accepted" | "InvalidCredential" | "InvalidDpopProof" | "AuthorizationUnavailable" | "defect"

const algorithms = ["ES256", "EdDSA", "Ed25519", "PS256"]

/** The default of the gateway, in seconds. */
const clockTolerance = 5

/** The verifier of JWT access tokens, in process. With a time to live, it verifies the signature of a token once. */
export const verifierOf = (
  { audience, issuer }: Pick<Materials, "audience" | "issuer">,
  signatureTimeToLive: "1 minute" | 0
) =>
  GrantVerifier.layerJwt({ issuer, audience, signatureTimeToLive }).pipe(
    Layer.provide([ProofReplay.layerMemory, Grants.layerMemory, FetchHttpClient.layer]),
    Layer.provide(MemoryLedger.layer),
    Layer.provide(Platform)
  )

/** The verdict of the gateway. */
export const judge = (
  { url }: Pick<Materials, "url">,
  { proof, scheme, token }: Attempt
): Effect.Effect<Verdict, never, GrantVerifier> =>
  GrantVerifier.use(({ verify }) =>
    verify({
      scheme,
      token: Redacted.make(token),
      proof: proof === null ? null : Redacted.make(proof),
      certificate: null,
      method: "GET",
      url,
      resource: null
    })
  ).pipe(
    Effect.exit,
    Effect.map((exit) => {
      if (Exit.isSuccess(exit)) return "accepted"
      const reason = exit.cause.reasons.find(Cause.isFailReason)
      return reason === undefined ? "defect" : reason.error._tag as Verdict
    })
  )

/** Whether `oauth4webapi` accepts it. Null if a header cannot hold its characters, so that it cannot be sent. */
type Peer = (attempt: Attempt) => Promise<boolean | null>

/** Reads the metadata of the issuer, once. */
const makePeer = async ({ audience, issuer, url }: Materials): Promise<Peer> => {
  const insecure = { [oauth.allowInsecureRequests]: true }
  const own = new URL(issuer)
  const server = await oauth.processDiscoveryResponse(own, await oauth.discoveryRequest(own, insecure))
  const options = { ...insecure, signingAlgorithms: algorithms, [oauth.clockTolerance]: clockTolerance }
  return async ({ proof, scheme, token }) => {
    const request = makeRequest(url, { authorization: `${scheme} ${token}`, ...proof === null ? {} : { dpop: proof } })
    if (request === null) return null
    try {
      await oauth.validateJwtAccessToken(server, request, audience, options)
      return true
    } catch {
      return false
    }
  }
}

const makeRequest = (url: string, headers: Record<string, string>): Request | null => {
  try {
    return new Request(url, { headers })
  } catch {
    return null
  }
}

/** Attempts at once. Signatures are verified by several threads. */
const batch = 64

/**
 * Makes `count` attempts. The gateway must refuse each with `refusal`. `oauth4webapi` must refuse each except for these
 * differences, and each difference must occur. The message of a failure has the seed (see `variantSeed`).
 */
export const assertAllRefused = Effect.fnUntraced(function*(options: {
  readonly materials: Materials
  readonly variants: fc.Arbitrary<Variant>
  readonly count: number
  readonly refusal: Verdict
  readonly differences: Readonly<Record<string, string>>
}) {
  const { count, differences, materials, variants, refusal } = options
  const peer = yield* Effect.promise(() => makePeer(materials))
  const seed = variantSeed()
  const accepted = new Set<string>()
  for (let done = 0; done < count; done += batch) {
    const sample = fc.sample(variants, { numRuns: Math.min(batch, count - done), seed: seed + done })
    const attempts = sample.map(({ make }) => make(materials))
    const verdicts = yield* Effect.forEach(attempts, (attempt) => judge(materials, attempt), { concurrency: batch })
    const byPeer = yield* Effect.promise(() => Promise.all(attempts.map(peer)))
    sample.forEach(({ kind, note }, at) => {
      const what = `${kind} ${note} (seed ${seed + done}, number ${at})`
      assert.strictEqual(verdicts[at], refusal, what)
      if (byPeer[at] !== true) return
      assert.property(differences, kind, `oauth4webapi accepts it: ${what}`)
      accepted.add(kind)
    })
  }
  assert.sameMembers([...accepted], Object.keys(differences))
})

/** Both the gateway and `oauth4webapi` accept each of these. */
export const assertAllAccepted = Effect.fnUntraced(function*(
  materials: Materials,
  attempts: ReadonlyArray<{ readonly attempt: Attempt; readonly what: string }>
) {
  const peer = yield* Effect.promise(() => makePeer(materials))
  for (const { attempt, what } of attempts) {
    const verdict = yield* Effect.provide(judge(materials, attempt), verifierOf(materials, 0))
    assert.strictEqual(verdict, "accepted", what)
    assert.isTrue(yield* Effect.promise(() => peer(attempt)), what)
  }
})
