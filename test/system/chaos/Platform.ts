import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Layer } from "effect"

/** The platform services. The test fixtures have others, which need a test runner. */
export const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)
