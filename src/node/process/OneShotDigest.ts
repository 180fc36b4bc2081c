/**
 * The digests of a process, each in one call to OpenSSL. Node's streaming `createHash` takes more than half as long again.
 */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { hash } from "node:crypto"

/** Computes SHA-256 itself, and leaves other algorithms to the platform's digests. */
export const layer: Layer.Layer<Digest.Digest> = Layer.effect(
  Digest.Digest,
  Effect.map(Digest.Digest, (platform) =>
    Digest.Digest.of({
      ...platform,
      digestHex: (algorithm, data) =>
        algorithm === Digest.sha256
          ? Effect.sync(() => hash("sha256", data, "hex"))
          : platform.digestHex(algorithm, data)
    }))
).pipe(Layer.provide(NodeCrypto.layerDigest))
