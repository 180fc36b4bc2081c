import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Layer } from "effect"

/** What the services need of the platform. Not of the test fixtures, which need a test runner. */
export const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)
