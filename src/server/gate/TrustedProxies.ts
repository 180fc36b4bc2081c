/**
 * Trusted proxies, by their addresses.
 */
import { BlockList, isIP, SocketAddress } from "node:net"

type Family = "ipv4" | "ipv6"

interface Address {
  readonly text: string
  readonly family: Family
}

/** Reads an IP address. An IPv4 address mapped into IPv6 (RFC 4291 §2.5.5.2) becomes that IPv4 address. */
const readAddress = (text: string): Address | null => {
  const family: Family | null = isIP(text) === 4 ? "ipv4" : isIP(text) === 6 ? "ipv6" : null
  if (family === null || text.includes("%")) return null
  const { address } = new SocketAddress({ address: text, family })
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  return mapped === undefined ? { text: address, family } : { text: mapped, family: "ipv4" }
}

/** Reads the length of a prefix, in bits. A prefix of a mapped address counts from the start of the IPv4 address. */
const readPrefix = (text: string, { family }: Address, isMapped: boolean): number | null => {
  if (!/^\d{1,3}$/.test(text)) return null
  const bits = Number(text) - (isMapped ? 96 : 0)
  return bits >= 0 && bits <= (family === "ipv4" ? 32 : 128) ? bits : null
}

/**
 * Returns a function that tells whether an address is a trusted proxy. `proxies` are IPv4 or IPv6 addresses and CIDR
 * blocks (RFC 4632 §3.1, RFC 4291 §2.3). Throws an error of one sentence on anything else.
 */
export const trustedProxies = (proxies: ReadonlyArray<string>): (address: string) => boolean => {
  const trusted = new BlockList()
  for (const proxy of proxies) {
    const [text, prefix, ...rest] = proxy.split("/")
    const address = readAddress(text!)
    const isMapped = address?.family === "ipv4" && text!.includes(":")
    const bits = address === null || prefix === undefined ? null : readPrefix(prefix, address, isMapped)
    if (address === null || rest.length > 0 || (prefix !== undefined && bits === null)) {
      throw new Error(
        `Trusted proxies must be IP addresses or CIDR blocks, such as 10.1.0.0/16, which ${proxy} is not.`
      )
    }
    if (bits === null) trusted.addAddress(address.text, address.family)
    else trusted.addSubnet(address.text, bits, address.family)
  }
  return (text) => {
    const address = readAddress(text.split("%", 1)[0]!)
    return address !== null && trusted.check(address.text, address.family)
  }
}
