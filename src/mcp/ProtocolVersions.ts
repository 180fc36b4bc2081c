/**
 * The versions of the Model Context Protocol that the gateway speaks, and how a request names one.
 */
import { errorCodes, type JsonObject, JsonRpcFailure } from "./JsonRpc.ts"
import { isObject } from "./Messages.ts"

/** Each request names its version, and nothing connects it with another. */
export const modern = "2026-07-28"

/** A client initializes first, and names no version in its messages. */
export const legacy = "2025-11-25"

/** The versions, latest first. */
const supportedVersions: ReadonlyArray<string> = [modern, legacy]

/** The member of `_meta` that names the version. */
const versionMember = "io.modelcontextprotocol/protocolVersion"

/** The member of `_meta` that tells what the client can do. Requests of 2026-07-28 must have it. */
export const capabilitiesMember = "io.modelcontextprotocol/clientCapabilities"

/** The metadata of a request. */
export const metadataOf = (params: JsonObject | undefined): JsonObject =>
  isObject(params?.["_meta"]) ? params["_meta"] : {}

/** Versions are dates. A client may send anything, such as a token, and an error repeats no other text. */
const isVersion = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\d$/.test(text)

/** The error of a request in another version. */
export const unsupportedVersion = (requested: unknown): JsonRpcFailure =>
  new JsonRpcFailure({
    code: errorCodes.unsupportedProtocolVersion,
    message: "Unsupported protocol version",
    data: { supported: supportedVersions, requested: isVersion(requested) ? requested : "malformed" }
  })

/** The version that a request names; null if it names none, as in version 2025-11-25. */
export const namedVersion = (params: JsonObject | undefined): unknown =>
  Object.hasOwn(metadataOf(params), versionMember) ? metadataOf(params)[versionMember] : null
