/**
 * The address from which a request came, behind proxies that are trusted.
 */
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as IpNetwork from "effect/net/IpNetwork"
import * as NetAddress from "effect/net/NetAddress"
import * as Result from "effect/Result"
import { trustedProxies } from "./TrustedProxies.ts"

/** As sockets and proxies write it: with a zone, in brackets, or with a port. IPv4 in IPv6 is that IPv4 address. */
const parse = (text: string): NetAddress.IpAddress | null => {
  const [address] = text.trim().split("%", 1) as [string]
  // The longest address has 39 characters, and its port and brackets 8 more.
  if (address.length > 47) return null
  const bare = address.startsWith("[") && address.endsWith("]") ? address.slice(1, -1) : address
  const ip = NetAddress.ipFromString(bare)
  if (Result.isSuccess(ip)) return NetAddress.toCanonical(ip.success)
  const withPort = NetAddress.inetAddressFromString(bare)
  return Result.isSuccess(withPort) ? NetAddress.toCanonical(withPort.success.address) : null
}

/** Who has an IPv6 address has a /64 (RFC 6177), and may use another address of it for each request. */
const blockOf = (address: NetAddress.IpAddress): string =>
  NetAddress.isIpv4Address(address)
    ? NetAddress.formatIp(address)
    : IpNetwork.format(IpNetwork.fromAddressUnsafe(address, 64))

/**
 * Tells the address of a client by which its requests are counted: an IPv4 address, or an IPv6 block of /64. That of the
 * socket, unless it is a trusted proxy's: then the last one in `X-Forwarded-For` that is not. Whatever stands before it
 * there, the client may have made up. An entry that is no address ends the search at the proxy that added it.
 */
export const clientAddress = (proxies: ReadonlyArray<string>) => {
  const isTrusted = trustedProxies(proxies)
  return ({ headers, remoteAddress }: Pick<HttpServerRequest, "headers" | "remoteAddress">): string => {
    let address = remoteAddress._tag === "Some" ? parse(remoteAddress.value) : null
    if (address === null) return "unknown"
    let forwarded = headers["x-forwarded-for"] ?? ""
    while (forwarded !== "" && isTrusted(NetAddress.formatIp(address))) {
      const comma = forwarded.lastIndexOf(",")
      const before = parse(forwarded.slice(comma + 1))
      if (before === null) break
      address = before
      forwarded = forwarded.slice(0, Math.max(0, comma))
    }
    return blockOf(address)
  }
}
