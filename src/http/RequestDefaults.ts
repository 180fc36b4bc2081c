/**
 * Settings of every request that the gateway sends to an authorization server or a provider.
 */

/** Asks for JSON without compression, because HTTP clients differ in how they limit and decode compressed bodies. */
export const acceptJson = { accept: "application/json", "accept-encoding": "identity" } as const

/** For `FetchHttpClient.RequestInit`. By default, `fetch` follows redirects and may answer from a cache. */
export const fetchInit = { redirect: "manual", cache: "no-store" } as const
