/**
 * The network of the room: a namespace for each host, and a bridge between them. The room is a network namespace itself, so
 * that its names and addresses collide with no other run.
 */
import { run } from "./Commands.ts"
import { addresses, type Host, type NodeName, nodeNames } from "./Plan.ts"

const ip = (...args: ReadonlyArray<string>) => run(["ip", ...args])

/** The device of a host on the bridge. */
const deviceOf = (host: Host) => host === "app" ? "br0" : "eth0"

const inside = (host: Host) => host === "app" ? [] : ["-n", host]

const allHosts: ReadonlyArray<Host> = ["app", "dcs", ...nodeNames]

/** A hardware address that no host has. */
const nowhere = "02:00:00:00:de:ad"

/** Which packets are lost: those of the first host, those to it, or both. */
export type Direction = "from" | "to" | "both"

export type SlowLinks = "netem" | "tbf"

export class Network {
  /** How links are made slow: by late and lost packets, or where the kernel lacks that, by a narrow link with a queue. */
  slowLinks: SlowLinks = "netem"

  async build(): Promise<void> {
    await ip("link", "set", "lo", "up")
    await ip("link", "add", "br0", "type", "bridge")
    await ip("addr", "add", `${addresses.app}/24`, "dev", "br0")
    await ip("link", "set", "br0", "up")
    for (const host of allHosts) {
      if (host === "app") continue
      await ip("netns", "add", host)
      await ip("-n", host, "link", "set", "lo", "up")
      await ip("link", "add", `v-${host}`, "type", "veth", "peer", "name", "eth0", "netns", host)
      await ip("link", "set", `v-${host}`, "master", "br0", "up")
      await ip("-n", host, "addr", "add", `${addresses[host]}/24`, "dev", "eth0")
      await ip("-n", host, "link", "set", "eth0", "up")
    }
    try {
      await run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
      await run(["tc", "qdisc", "del", "dev", "lo", "root"])
    } catch {
      this.slowLinks = "tbf"
    }
  }

  /** Packets between the host and its peers are lost, and no error tells it: the sender has a wrong hardware address. */
  async cut(host: Host, peers: ReadonlyArray<Host>, direction: Direction = "both"): Promise<void> {
    for (const peer of peers) {
      if (peer === host) continue
      if (direction !== "to") await this.lose(host, peer)
      if (direction !== "from") await this.lose(peer, host)
    }
  }

  /** All hosts reach each other again, fast. */
  async heal(): Promise<void> {
    for (const host of allHosts) await ip(...inside(host), "neigh", "flush", "all", "nud", "permanent").catch(() => "")
    for (const node of nodeNames) {
      await run(["tc", "qdisc", "del", "dev", `v-${node}`, "root"]).catch(() => "")
      await run(["tc", "qdisc", "del", "dev", "eth0", "root"], { host: node }).catch(() => "")
    }
  }

  /** Slows the packets from and to the node. */
  async slow(node: NodeName): Promise<void> {
    const how = this.slowLinks === "netem"
      ? ["netem", "delay", "80ms", "40ms", "loss", "2%"]
      : ["tbf", "rate", "600kbit", "burst", "1600", "latency", "400ms"]
    await run(["tc", "qdisc", "replace", "dev", `v-${node}`, "root", ...how])
    await run(["tc", "qdisc", "replace", "dev", "eth0", "root", ...how], { host: node })
  }

  private async lose(from: Host, to: Host): Promise<void> {
    const neighbour = ["neigh", "replace", addresses[to], "lladdr", nowhere, "nud", "permanent"]
    await ip(...inside(from), ...neighbour, "dev", deviceOf(from))
  }
}
