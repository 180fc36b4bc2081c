import { Effect } from "effect"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"

/** A free port of 127.0.0.1, for a server that cannot choose one itself. */
export const freePort: Effect.Effect<number> = Effect.promise(async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  return port
})
