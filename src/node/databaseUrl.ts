/**
 * `DATABASE_URL`: a libpq URI with one host or several. A parameter that the gateway does not support is an error, because libpq
 * would heed it: a URL that verifies a certificate must not connect without that.
 */
import * as Data from "effect/Data"

/** The URL cannot be used. The message repeats neither the URL nor a value of it, which may be a password. */
export class InvalidDatabaseUrl extends Data.TaggedError("InvalidDatabaseUrl")<{ readonly message: string }> {}

export interface DatabaseServers {
  /** A URL for each host, in order. The driver takes one host. */
  readonly urls: readonly [string, ...ReadonlyArray<string>]
  /** Whether a server in recovery is refused (`target_session_attrs`). */
  readonly mustBePrimary: boolean
}

/** The parameters of libpq that the driver heeds. */
const supported = [
  "host",
  "port",
  "user",
  "password",
  "dbname",
  "application_name",
  "options",
  "connect_timeout",
  "sslmode"
]

const invalid = (message: string) => new InvalidDatabaseUrl({ message: `the database URL ${message}` })

/** `postgres://`, the user with the password, the hosts, the path and the parameters. */
const parts = /^(?<scheme>postgres(?:ql)?:\/\/)(?<authority>[^/?#]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/u

/** libpq calls a server that takes writes `read-write`, and one that is not in recovery `primary`. The gateway needs both. */
const readTarget = (target: string | null, hosts: number): boolean => {
  switch (target) {
    case null:
      return hosts > 1
    case "any":
      return false
    case "read-write":
    case "primary":
      return true
    default:
      throw invalid("has a target_session_attrs other than any, read-write or primary")
  }
}

/** The hosts of the authority, each with its port if it has one. */
const hostsOf = (authority: string): ReadonlyArray<string> => authority.split(",")

/** The hosts and ports of the parameters, which replace those of the authority. */
const hostsOfParameters = (host: string, port: string | null): ReadonlyArray<readonly [string, string | null]> => {
  const hosts = host.split(",")
  const ports = port === null ? [null] : port.split(",")
  if (ports.length > 1 && ports.length !== hosts.length) throw invalid("has another number of ports than of hosts")
  return hosts.map((one, index) => [one, ports[ports.length === 1 ? 0 : index]!])
}

/**
 * Reads a URL. A URL with several hosts refuses servers in recovery by default: they cannot serve. libpq would take any server.
 * Throws `InvalidDatabaseUrl`.
 */
export const readDatabaseUrl = (url: string): DatabaseServers => {
  const { authority = "", path = "", query = "", scheme } = parts.exec(url)?.groups ?? {}
  if (scheme === undefined) throw invalid("must be postgres://USER:PASSWORD@HOST:PORT/DATABASE")
  const parameters = new URLSearchParams(query)
  for (const name of parameters.keys()) {
    if (name !== "target_session_attrs" && !supported.includes(name)) {
      throw invalid(`has an unsupported parameter: ${/^\w{1,40}$/u.test(name) ? name : "one with special characters"}`)
    }
    if (parameters.getAll(name).length > 1) throw invalid(`has the parameter ${name} more than once`)
  }
  const target = parameters.get("target_session_attrs")
  parameters.delete("target_session_attrs")
  const [host, port] = [parameters.get("host"), parameters.get("port")]
  const at = authority.lastIndexOf("@") + 1
  const [user, named] = [authority.slice(0, at), authority.slice(at)]
  const build = (server: string, changed: Readonly<Record<string, string | null>>) => {
    const own = new URLSearchParams(parameters)
    for (const [name, value] of Object.entries(changed)) {
      if (value !== null) own.set(name, value)
    }
    const text = own.toString()
    return `${scheme}${user}${server}${path}${text === "" ? "" : `?${text}`}`
  }
  if (host !== null && named.includes(",")) throw invalid("has hosts in two places")
  // The parameter replaces the host, without which a URL has no user.
  const replaced = named === "" && user !== "" ? "localhost" : named
  const urls = host === null
    ? hostsOf(named).map((server) => build(server, {}))
    : hostsOfParameters(host, port).map(([one, itsPort]) => build(replaced, { host: one, port: itsPort }))
  if (urls.length > 1 && hostsOf(host ?? named).some((one) => one === "" || one.startsWith(":"))) {
    throw invalid("has an empty host")
  }
  return { urls: urls as [string, ...Array<string>], mustBePrimary: readTarget(target, urls.length) }
}
