/**
 * Key sets, and what becomes of a search in them.
 */
import { Effect } from "effect"
import { HttpClient } from "effect/http"
import { issuerSettings } from "../../src/oauth/Issuer.ts"
import { type KeySet, makeKeySet } from "../../src/oauth/KeySet.ts"
import type { FakeServer } from "./FakeServer.ts"
import { audience, issuer, signerOf } from "./Issuing.ts"

/** What became of a search: the key, or the tag of the failure. */
const searchIn = (keys: KeySet) => (kid: string | undefined, algorithm = "ES256") =>
  Effect.match(keys.find({ algorithm, kid }), { onSuccess: () => "found", onFailure: ({ _tag }) => _tag })

export const keySetOf = (server: FakeServer, changes: { algorithms?: ReadonlyArray<string>; jwksUri?: string } = {}) =>
  Effect.map(
    Effect.provideService(
      makeKeySet(issuerSettings({ issuer, audience, ...changes })),
      HttpClient.HttpClient,
      server.client
    ),
    searchIn
  )

export const jwkOf = (kid: string, algorithm?: string) => Effect.map(signerOf(kid, algorithm), ({ jwk }) => jwk)
