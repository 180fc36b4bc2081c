/** A proxy is trusted by its address alone. The tests list addresses, blocks and texts that are neither. */
import { assert, describe, it } from "@effect/vitest"
import { trustedProxies } from "../../../../src/server/gate/ClientAddress.ts"

const addresses = [
  "10.1.2.3",
  "10.1.255.255",
  "10.2.0.0",
  "127.0.0.1",
  "::1",
  "fd00::1",
  "fdff:ffff::1",
  "fe80::1",
  "2001:db8::1"
]

describe("A proxy", () => {
  it("is trusted by its address, or by a block that contains it, in IPv4 and IPv6", () => {
    const trusts: ReadonlyArray<readonly [ReadonlyArray<string>, ReadonlyArray<string>]> = [
      [[], []],
      [["127.0.0.1", "2001:db8::1"], ["127.0.0.1", "2001:db8::1"]],
      [["10.1.0.0/16"], ["10.1.2.3", "10.1.255.255"]],
      [["10.1.2.3/32", "::1/128"], ["10.1.2.3", "::1"]],
      [["fd00::/8"], ["fd00::1", "fdff:ffff::1"]],
      [["0.0.0.0/0"], ["10.1.2.3", "10.1.255.255", "10.2.0.0", "127.0.0.1"]],
      [["2001:0DB8:0:0::0:1"], ["2001:db8::1"]]
    ]
    for (const [proxies, trusted] of trusts) {
      assert.deepStrictEqual(addresses.filter(trustedProxies(proxies)), [...trusted], proxies.join())
    }
  })

  it("of IPv4 is also trusted when its address, or the configured one, is mapped into IPv6", () => {
    for (const proxy of ["10.1.2.3", "::ffff:10.1.2.3", "::FFFF:a01:203", "10.1.2.0/24", "::ffff:10.1.2.0/120"]) {
      const isTrusted = trustedProxies([proxy])
      for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "::ffff:0a01:0203"]) {
        assert.isTrue(isTrusted(address), proxy)
      }
      for (const address of ["10.1.3.3", "::ffff:10.1.3.3", "::10.1.2.3"]) assert.isFalse(isTrusted(address), proxy)
    }
  })

  it("is trusted when its address has an IPv6 zone", () => {
    assert.isTrue(trustedProxies(["fe80::/10"])("fe80::1%eth0"))
  })

  it("is not trusted when its address is invalid", () => {
    for (const address of ["", "unix", "10.1.2", "10.1.2.3:80", "10.1.2.3, 10.1.2.3"]) {
      assert.isFalse(trustedProxies(["0.0.0.0/0", "::/0"])(address))
    }
  })

  it("is configured by an address or a block; anything else is an error", () => {
    const wrong = [
      "",
      " ",
      "localhost",
      "10.1.2",
      "10.1.2.300",
      "010.1.2.3",
      "10.1.2.3:80",
      "[::1]",
      "fe80::1%eth0",
      "10.0.0.0/",
      "10.0.0.0/33",
      "10.0.0.0/-1",
      "10.0.0.0/8.0",
      "10.0.0.0/8/8",
      "10.0.0.0/255.0.0.0",
      "fd00::/129",
      "::ffff:10.0.0.0/8"
    ]
    for (const proxy of wrong) {
      assert.throws(() => trustedProxies(["127.0.0.1", proxy]), "IP addresses or CIDR blocks", proxy)
    }
  })
})
