/** The part of an authorization server that the verification of a JWT needs: a key set, and a token that it signed. */
import { DateTime, Effect } from "effect"
import { exportJWK, generateKeyPair, SignJWT } from "jose"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { type GrantRegistration, Grants } from "../../src/services/Grants.ts"
import { grantFor } from "../shared/database.ts"

const keyServer = Effect.acquireRelease(
  Effect.promise(async () => {
    const { privateKey, publicKey } = await generateKeyPair("ES256")
    const keys = JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid: "one", alg: "ES256", use: "sig" }] })
    const server = createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(keys)
    })
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return { server, issuer, privateKey }
  }),
  ({ server }) => Effect.sync(() => void server.close())
)

const signToken = (issuer: string, key: CryptoKey, { client_id, subject }: ReturnType<typeof grantFor>) =>
  Effect.promise(() =>
    new SignJWT({ client_id, scope: "operations:read", grant_id: "grant-1" })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: "one" })
      .setIssuer(issuer).setAudience("http://127.0.0.1").setSubject(subject).setJti("1").setIssuedAt()
      .setExpirationTime("1 day").sign(key)
  )

/** An issuer, and a token for a day. It names a grant of the owner, so it reads the same as the owner's opaque token. */
export const startIssuer = Effect.fnUntraced(function*(owner: string) {
  const { issuer, privateKey } = yield* keyServer
  const grant = grantFor(owner)
  yield* Grants.use((grants) =>
    grants.register({
      ...grant,
      // Both are branded strings.
      issuer: issuer as GrantRegistration["issuer"],
      grant: "grant-1" as GrantRegistration["grant"],
      expires_at: DateTime.addDuration(DateTime.nowUnsafe(), "1 day")
    })
  )
  return { issuer, token: yield* signToken(issuer, privateKey, grant) }
})
