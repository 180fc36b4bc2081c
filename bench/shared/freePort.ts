/** Ports for servers that cannot choose one themselves. */
import { Effect } from "effect"
import { once } from "node:events"
import * as net from "node:net"

/**
 * A port of the loopback interface that was free at the time of the call. It is below those that the kernel gives to outgoing
 * connections, so that none of them takes it before the server listens.
 */
export const freePort: Effect.Effect<number> = Effect.promise(async () => {
  for (;;) {
    // Above 10,080, the last port of the range that `fetch` refuses.
    const port = 10_081 + Math.floor(Math.random() * 21_900)
    const server = net.createServer().listen(port, "127.0.0.1")
    const isFree = await once(server, "listening").then(() => true, () => false)
    if (!isFree) continue
    server.close()
    await once(server, "close")
    return port
  }
})
