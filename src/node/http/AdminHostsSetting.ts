/**
 * The names under which the admin listener answers: loopback names, its own address, and `ADMIN_ALLOWED_HOSTS`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import { isInetAddress } from "effect/net/NetAddress"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { loopbackHosts } from "../../http/loopbackHosts.ts"
import { AdminHosts } from "../../operator/AdminHosts.ts"
import { addressOf } from "./ListenAddress.ts"

const isHost = (text: string): boolean =>
  /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?$/i.test(text) && URL.canParse(`http://${text}`)

const readAllowed = Effect.gen(function*() {
  const text = yield* Config.String("ADMIN_ALLOWED_HOSTS").pipe(Config.withDefault(""))
  if (text.trim() === "") return []
  const hosts = text.split(",").map((host) => host.trim())
  if (hosts.every(isHost)) return hosts.map((host) => host.toLowerCase())
  return yield* new InvalidSetting({
    message: "ADMIN_ALLOWED_HOSTS must be host names, separated by commas, such as gateway-1.internal or 10.0.0.5:9464"
  })
})

/** The names of a listener on the host. Fails with one sentence if one of `ADMIN_ALLOWED_HOSTS` is no host name. */
export const layerAdminHosts = (host: string) =>
  Layer.effect(
    AdminHosts,
    Effect.gen(function*() {
      const { address } = yield* HttpServer
      const port = isInetAddress(address) ? address.port : 0
      const own = [...[...loopbackHosts].map((name) => `http://${name}:${port}`), addressOf(host, port)]
      return [...own.map((url) => new URL(url).host), ...yield* readAllowed]
    })
  )
