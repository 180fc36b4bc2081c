/** The platform services of a chaos run. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Layer } from "effect"

/** Not those of the test fixtures, which need a test runner. */
export const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)
