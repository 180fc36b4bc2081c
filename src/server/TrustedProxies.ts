/**
 * Proxies that are believed, by the addresses from which they come.
 */
import { BlockList, isIP, SocketAddress } from "node:net"

type Family = "ipv4" | "ipv6"

interface Address {
  readonly text: string
  readonly family: Family
}

/** An IPv4 address may come mapped into IPv6 (RFC 4291 §2.5.5.2), and is that IPv4 address all the same. */
const readAddress = (text: string): Address | null => {
  const family: Family | null = isIP(text) === 4 ? "ipv4" : isIP(text) === 6 ? "ipv6" : null
  if (family === null || text.includes("%")) return null
  const { address } = new SocketAddress({ address: text, family })
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  return mapped === undefined ? { text: address, family } : { text: mapped, family: "ipv4" }
}

/** The length of a prefix, in bits of the address as it was written. */
const readPrefix = (text: string, { family }: Address, isMapped: boolean): number | null => {
  if (!/^\d{1,3}$/.test(text)) return null
  const bits = Number(text) - (isMapped ? 96 : 0)
  return bits >= 0 && bits <= (family === "ipv4" ? 32 : 128) ? bits : null
}

/**
 * Tells of an address whether it is that of a proxy that is trusted. Proxies are IPv4 or IPv6 addresses, and blocks of
 * them (RFC 4632 §3.1, RFC 4291 §2.3). Throws an error of one sentence on what is neither.
 */
export const trustedProxies = (proxies: ReadonlyArray<string>): (address: string) => boolean => {
  const trusted = new BlockList()
  for (const proxy of proxies) {
    const [text, prefix, ...rest] = proxy.split("/")
    const address = readAddress(text!)
    const isMapped = address?.family === "ipv4" && text!.includes(":")
    const bits = address === null || prefix === undefined ? null : readPrefix(prefix, address, isMapped)
    if (address === null || rest.length > 0 || (prefix !== undefined && bits === null)) {
      throw new Error(`Trusted proxies are IP addresses or CIDR blocks, such as 10.1.0.0/16, which ${proxy} is not.`)
    }
    if (bits === null) trusted.addAddress(address.text, address.family)
    else trusted.addSubnet(address.text, bits, address.family)
  }
  return (text) => {
    const address = readAddress(text.split("%", 1)[0]!)
    return address !== null && trusted.check(address.text, address.family)
  }
}
