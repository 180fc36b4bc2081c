/** Addresses of listeners, and why a process cannot listen there. */
import * as Effect from "effect/Effect"
import { ServeError } from "effect/http/HttpServerError"
import * as net from "node:net"

/** An address of this machine, and the settings that choose it. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
  /** What comes before HOST and PORT in the names of the settings, such as `ADMIN_`. */
  readonly prefix?: string
  /** Whether other processes of this user may listen there, too. */
  readonly reusePort?: boolean
}

const authorityOf = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`

/** The URL of a listener without one. */
export const addressOf = (host: string, port: number): string => `http://${authorityOf(host, port)}`

/** The processes of an environment share `ADMIN_PORT`. */
const forAdmin = " for each process, or give this one --admin-port (of `console`: --port)"

const reasonOf = (error: unknown, { host, prefix = "", reusePort = false }: ListenAddress): string => {
  const { code, message } = error instanceof Error
    ? error as NodeJS.ErrnoException
    : new Error(String(error)) as NodeJS.ErrnoException
  switch (code) {
    case "EADDRINUSE":
      return reusePort
        ? "another process uses the port, without REUSE_PORT or as another user"
        : `another process uses the port. Set ${prefix}PORT to a free port${prefix === "" ? "" : forAdmin}`
    case "ENOTSUP":
      return "the system does not share a port among processes. Set REUSE_PORT to false"
    case "EACCES":
      return `the system does not allow it. Set ${prefix}PORT to a port from 1024`
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `${host} is no address of this machine. Set ${prefix}HOST to one of its addresses`
    default:
      return message
  }
}

/** The failure to listen as one sentence with the address and the setting. */
export const explainListenFailure = ({ cause }: ServeError, address: ListenAddress): ServeError =>
  new ServeError({
    cause: new Error(`cannot listen on ${authorityOf(address.host, address.port)}: ${reasonOf(cause, address)}`, {
      cause
    })
  })

/**
 * Fails if the process cannot listen on one of the addresses, so that nothing else starts before. It opens and closes each. An address
 * that processes share is left out: a connection could come meanwhile.
 */
export const requireFree = (addresses: ReadonlyArray<ListenAddress>): Effect.Effect<void, ServeError> =>
  Effect.forEach(
    addresses.filter(({ port, reusePort = false }) => port !== 0 && !reusePort),
    (address) =>
      Effect.callback<void, ServeError>((resume) => {
        const server = net.createServer()
        server.once("error", (cause) => {
          resume(Effect.fail(explainListenFailure(new ServeError({ cause }), address)))
        })
        const { host, port } = address
        server.listen({ host, port, exclusive: true }, () => void server.close(() => resume(Effect.void)))
      }),
    { discard: true }
  )

/** Where the admin listener of a process listens. */
export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** The address of the admin listener, if there is one. */
export const listensForAdmin = (admin: AdminAddress | null): ReadonlyArray<ListenAddress> =>
  admin === null ? [] : [{ ...admin, prefix: "ADMIN_" }]

/** The URL of the admin listener, for the log. */
export const adminUrl = (admin: AdminAddress | null): { readonly admin_url?: string } =>
  admin === null ? {} : { admin_url: addressOf(admin.host, admin.port) }
