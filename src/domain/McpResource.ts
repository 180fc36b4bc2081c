/**
 * The MCP endpoint as a protected resource of its own (RFC 9728). Clients request tokens for it by its URL (RFC 8707), and such
 * a token is refused on every other path.
 */
import * as Context from "effect/Context"

/** Path of the MCP endpoint below the base URL. The only place that names it. */
export const mcpPath = "/mcp"

/** The URL of the MCP resource: the audience of tokens that are issued for it alone. The base URL has no trailing slash. */
export const mcpResource = (baseUrl: string): string => baseUrl + mcpPath

/**
 * The resource to which a path belongs: the URL of the MCP resource, or null for the gateway itself. Only the literal path is of
 * the MCP resource, so an escaped or longer path never widens what a token is good for.
 */
export const resourceOf = (baseUrl: string, path: string): string | null =>
  path === mcpPath ? mcpResource(baseUrl) : null

/** The version of the MCP server, for clients. The process provides that of its package. */
export const ServerVersion = Context.Reference<string>("financial-agents-gateway/domain/ServerVersion", {
  defaultValue: () => "unknown"
})
