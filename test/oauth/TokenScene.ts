/**
 * Verifiers of JWT access tokens, and their verdicts.
 */
import { assert } from "@effect/vitest"
import { type Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { type IssuerOptions, issuerSettings } from "../../src/oauth/Issuer.ts"
import { makeAccessTokens } from "../../src/oauth/JwtAccessToken.ts"
import { type FakeServer, layerOf, makeFakeServer } from "./FakeServer.ts"
import { audience, type Changes, epoch, issuer, signerOf, tokenOf } from "./Issuing.ts"

export const makeVerifier = (
  server: FakeServer,
  options: Partial<IssuerOptions> & { signatureTimeToLive?: Duration.Input } = {}
) =>
  Effect.map(
    Effect.provide(
      makeAccessTokens({
        ...issuerSettings({ issuer, audience, ...options }),
        signatureTimeToLive: options.signatureTimeToLive ?? 0
      }),
      layerOf(server)
    ),
    (verify) => (token: string) => verify(Redacted.make(token))
  )

/** A verifier at a time that is not the beginning of all times, with a server that has one key. */
export const makeScene = Effect.fnUntraced(function*(options: Parameters<typeof makeVerifier>[1] = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const signer = yield* signerOf("one")
  const server = makeFakeServer([signer.jwk])
  return { signer, server, verify: yield* makeVerifier(server, options) }
})

export const verdictOn = (
  verify: (token: string) => Effect.Effect<unknown, { readonly _tag: string }>,
  token: string
) => Effect.match(verify(token), { onSuccess: () => "accepted", onFailure: ({ _tag }) => _tag })

export const verdictOnClaims = (claims: Changes, header: Changes = {}, options: Partial<IssuerOptions> = {}) =>
  Effect.gen(function*() {
    const { signer, verify } = yield* makeScene(options)
    return yield* verdictOn(verify, yield* tokenOf(signer, claims, header))
  })

export const allRefused = (claims: ReadonlyArray<Changes>) =>
  Effect.forEach(claims, (changes) =>
    Effect.map(
      verdictOnClaims(changes),
      (verdict) => assert.strictEqual(verdict, "InvalidCredential", JSON.stringify(changes))
    ))

export const allAccepted = (claims: ReadonlyArray<Changes>) =>
  Effect.forEach(claims, (changes) =>
    Effect.map(
      verdictOnClaims(changes),
      (verdict) => assert.strictEqual(verdict, "accepted", JSON.stringify(changes))
    ))
