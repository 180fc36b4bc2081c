/**
 * Trusted proxies, by their addresses.
 */
import * as IpInterface from "effect/net/IpInterface"
import * as IpNetwork from "effect/net/IpNetwork"
import * as NetAddress from "effect/net/NetAddress"
import * as Result from "effect/Result"

/** Reads an IP address, also with a zone. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2) becomes that IPv4 address. */
export const readAddress = (text: string): NetAddress.IpAddress | null => {
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
