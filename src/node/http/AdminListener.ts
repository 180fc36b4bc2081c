/**
 * The listener of `AdminServer`: a port of its own, apart from the public one. It has the same limits on headers, times and
 * bytes, and answers also while the public server is saturated. Idle connections do not close it: new ones take their places.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { HttpServer } from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import { isInetAddress } from "effect/net/NetAddress"
import * as net from "node:net"
import type { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { loopbackHosts } from "../../http/OutgoingRequest.ts"
import { AdminHosts } from "../../operator/AdminServer.ts"
import * as AdminServer from "../../operator/AdminServer.ts"
import { BaseUrl } from "../../server/gate/BaseUrl.ts"
import { RequestIds } from "../../services/RequestIds.ts"
import { readList } from "./HttpSettings.ts"
import { addressOf, type AdminAddress, explainListenFailure } from "./ListenAddress.ts"
import { createListener } from "./NodeListener.ts"

export type { AdminRoutes } from "../../operator/AdminServer.ts"

/**
 * Operators and scrapers open few connections. More than twice the backlog of 511: so many newer ones at once do not push out a
 * connection before its request is read.
 */
const maxConnections = 1024

const loopback = new net.BlockList()
loopback.addSubnet("127.0.0.0", 8, "ipv4")
loopback.addAddress("::1", "ipv6")

/** Whether only this machine reaches the host. */
const isLoopback = (host: string): boolean =>
  host === "localhost" || (net.isIP(host) !== 0 && loopback.check(host, net.isIPv4(host) ? "ipv4" : "ipv6"))

const isHost = (text: string): boolean =>
  /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?$/i.test(text) && URL.canParse(`http://${text}`)

/** The port that the listener has. */
const listenedPort = Effect.map(HttpServer, ({ address }) => isInetAddress(address) ? address.port : 0)

/** Problem types are URLs below the address of the listener. */
const layerBaseUrl = (host: string) => Layer.effect(BaseUrl, Effect.map(listenedPort, (port) => addressOf(host, port)))

/** The names under which the listener answers: loopback names, its own address, and `ADMIN_ALLOWED_HOSTS`. */
const layerAdminHosts = (host: string) =>
  Layer.effect(
    AdminHosts,
    Effect.gen(function*() {
      const port = yield* listenedPort
      const own = [...[...loopbackHosts].map((name) => `http://${name}:${port}`), addressOf(host, port)]
      const allowed = yield* readList(
        "ADMIN_ALLOWED_HOSTS",
        isHost,
        "host names, separated by commas, such as gateway-1.internal or 10.0.0.5:9464"
      )
      return [...own.map((url) => new URL(url).host), ...allowed.map((name) => name.toLowerCase())]
    })
  )

const warnOfOtherHosts = (host: string) =>
  isLoopback(host)
    ? Effect.void
    : Effect.annotateLogs(
      Effect.logWarning(
        "The admin listener is not on the loopback interface, and /metrics asks for no credential. ADMIN_ALLOWED_HOSTS names the hosts "
          + "under which scrapers reach it"
      ),
      { admin_host: host }
    )

/**
 * Listens until the scope closes, then waits one second for open connections. Fails with the address and the setting if it
 * cannot listen, and if a name in `ADMIN_ALLOWED_HOSTS` is none. Warns if other machines may reach the host.
 *
 * @internal
 */
export const layerListening = (
  { host, port }: AdminAddress
): Layer.Layer<HttpServer | AdminHosts | BaseUrl, ServeError | InvalidSetting | Config.ConfigError, RequestIds> =>
  Layer.unwrap(Effect.map(RequestIds, (requestIds) =>
    NodeHttpServer.layerServer(
      () => createListener({ baseUrl: addressOf(host, port), requestIds, maxConnections, makesRoom: true }),
      { host, port, gracefulShutdownTimeout: "1 second" }
    ))).pipe(
      Layer.catch((error) =>
        Layer.effect(HttpServer, Effect.fail(explainListenFailure(error, { host, port, prefix: "ADMIN_" })))
      ),
      Layer.tap(() => warnOfOtherHosts(host)),
      (Listening) => Layer.provideMerge(Layer.merge(layerAdminHosts(host), layerBaseUrl(host)), Listening)
    )

/**
 * The listener with `/metrics` and the routes of `more`, for the option `admin` of `GatewayApp`. It asks for no credential at `/metrics`.
 */
export const layer = <E, R>(
  more?: AdminServer.AdminRoutes<E, R>
): (address: { readonly host: string; readonly port: number }) => Layer.Layer<never, unknown, unknown> =>
(address) => AdminServer.layer(more).pipe(Layer.provide(layerListening(address)))
