/** The address of a client, also behind trusted proxies. */
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as IpInterface from "effect/net/IpInterface"
import * as IpNetwork from "effect/net/IpNetwork"
import * as NetAddress from "effect/net/NetAddress"
import * as Result from "effect/Result"

/** Reads an IP address, also with a zone. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2) becomes that IPv4 address. */
const readAddress = (text: string): NetAddress.IpAddress | null => {
  const address = NetAddress.ipFromString(text.split("%", 1)[0]!)
  return Result.isSuccess(address) ? NetAddress.toCanonical(address.success) : null
}

const readNetwork = (proxy: string): IpNetwork.IpNetwork => {
  const read = Result.flatMap(IpInterface.fromString(proxy), ({ address, prefixLength }) => {
    const canonical = NetAddress.toCanonical(address)
    // The prefix of a mapped address counts the 96 bits before the IPv4 address.
    return IpNetwork.fromAddress(canonical, canonical === address ? prefixLength : prefixLength - 96)
  })
  if (Result.isSuccess(read)) return read.success
  throw new Error(`Trusted proxies must be IP addresses or CIDR blocks, such as 10.1.0.0/16, which ${proxy} is not.`)
}

/**
 * Returns a function that tells whether an address is a trusted proxy. `proxies` are IPv4 or IPv6 addresses and CIDR
 * blocks (RFC 4632 §3.1, RFC 4291 §2.3). Throws an error of one sentence on anything else.
 */
export const trustedProxies = (proxies: ReadonlyArray<string>): (address: string) => boolean => {
  const networks = proxies.map(readNetwork)
  return (text) => {
    const address = readAddress(text)
    return address !== null && networks.some((network) => IpNetwork.contains(network, address))
  }
}

/**
 * Reads an address as sockets and proxies write it: with a zone, in brackets, or with a port. An IPv4 address mapped
 * into IPv6 becomes that IPv4 address.
 */
const parse = (text: string): NetAddress.IpAddress | null => {
  const [address] = text.trim().split("%", 1) as [string]
  // The longest address has 39 characters. Its port and brackets have 8 more.
  if (address.length > 47) return null
  const bare = address.startsWith("[") && address.endsWith("]") ? address.slice(1, -1) : address
  const ip = readAddress(bare)
  if (ip !== null) return ip
  const withPort = NetAddress.inetAddressFromString(bare)
  return Result.isSuccess(withPort) ? NetAddress.toCanonical(withPort.success.address) : null
}

/** An IPv6 client has at least a /64 (RFC 6177), and may use another address of it for each request. */
const blockOf = (address: NetAddress.IpAddress): string =>
  NetAddress.isIpv4Address(address)
    ? NetAddress.formatIp(address)
    : IpNetwork.format(IpNetwork.fromAddressUnsafe(address, 64))

/**
 * Returns the address by which the requests of a client are counted: an IPv4 address, or an IPv6 block of /64.
 *
 * It is the address of the socket. If that is a trusted proxy, it is the last address in `X-Forwarded-For` that is not
 * a trusted proxy: the client may have made up all entries before it. An entry that is no address ends the search at
 * the proxy that added it. `unknown` if the socket has no address.
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
