/**
 * `DATABASE_URL` and `DATABASE_READ_URL`: a libpq URI with one host or several. What the gateway does not support is an error, and is not ignored: a URL
 * that names certificates must not connect without them.
 */
import * as Data from "effect/Data"

/** The URL cannot be used. The message repeats nothing of it but names of libpq, because the rest may be a password. */
export class InvalidDatabaseUrl extends Data.TaggedError("InvalidDatabaseUrl")<{ readonly message: string }> {}

interface DatabaseServers {
  /** A URL for each host, in order. The driver takes one host. */
  readonly urls: readonly [string, ...ReadonlyArray<string>]
  /** Whether a server in recovery is refused (`target_session_attrs`). */
  readonly mustBePrimary: boolean
}

/** The parameters of libpq that the driver heeds, and what their values look like. */
const supported: Readonly<Record<string, RegExp>> = {
  host: /^/u,
  port: /^\d{1,5}(?:,\d{1,5})*$/u,
  user: /^/u,
  password: /^/u,
  dbname: /^/u,
  application_name: /^/u,
  options: /^/u,
  connect_timeout: /^\d{1,6}$/u,
  sslmode: /^(?:disable|allow|prefer|require|verify-ca|verify-full)$/u,
  target_session_attrs: /^/u
}

/** The servers that a URL is for. */
export type ServerRole = "primary" | "standby"

/** Its values for the servers of a URL. */
const targets: Readonly<Record<ServerRole, ReadonlyArray<string>>> = {
  primary: ["any", "read-write", "primary"],
  standby: ["any", "standby"]
}

const invalid = (message: string) => new InvalidDatabaseUrl({ message: `the database URL ${message}` })

/** `postgres://`, the user and the hosts, the path and the parameters. */
const parts = /^(?<scheme>postgres(?:ql)?:\/\/)(?<authority>[^/?#]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?(?:#.*)?$/iu

const readParameters = (query: string, role: ServerRole): URLSearchParams => {
  const parameters = new URLSearchParams(query)
  for (const [name, value] of parameters) {
    const form = Object.hasOwn(supported, name) ? supported[name] : undefined
    if (form === undefined) throw invalid(`has an unsupported parameter: use ${Object.keys(supported).join(", ")}`)
    if (parameters.getAll(name).length > 1) throw invalid(`has the parameter ${name} more than once`)
    const isValid = name === "target_session_attrs" ? targets[role].includes(value) : form.test(value)
    if (!isValid) throw invalid(`has an invalid ${name}`)
  }
  return parameters
}

/** The hosts and ports of the parameters, which replace those in front of the path. */
const hostsOfParameters = (host: string, port: string | null): ReadonlyArray<readonly [string, string | null]> => {
  const hosts = host.split(",")
  const ports = port === null ? [null] : port.split(",")
  if (hosts.length > 1 && hosts.includes("")) throw invalid("has an empty host")
  if (ports.length > 1 && ports.length !== hosts.length) throw invalid("has another number of ports than of hosts")
  return hosts.map((one, index) => [one, ports[ports.length === 1 ? 0 : index]!])
}

/** The hosts in front of the path, each with its port if it has one. */
const hostsOfAuthority = (authority: string, port: string | null): ReadonlyArray<string> => {
  const hosts = authority.split(",")
  if (hosts.length > 1 && hosts.some((one) => one === "" || one.startsWith(":"))) throw invalid("has an empty host")
  if (port?.includes(",") === true) throw invalid("has several ports, and no parameter host")
  return hosts
}

/**
 * Reads a URL. A URL with several hosts refuses servers in recovery by default, because they cannot serve; libpq takes any server.
 * With the role `standby` they may serve. Throws `InvalidDatabaseUrl`.
 */
export const readDatabaseUrl = (url: string, role: ServerRole = "primary"): DatabaseServers => {
  // A file with the URL may end in a line break.
  const { authority = "", path = "", query = "", scheme } = parts.exec(url.trim())?.groups ?? {}
  if (scheme === undefined) throw invalid("must be postgres://USER:PASSWORD@HOST:PORT/DATABASE")
  const parameters = readParameters(query, role)
  const [host, port, target] = ["host", "port", "target_session_attrs"].map((name) => parameters.get(name))
  parameters.delete("target_session_attrs")
  const at = authority.lastIndexOf("@") + 1
  const [user, named] = [authority.slice(0, at), authority.slice(at)]
  if (host != null && named.includes(",")) throw invalid("has hosts in two places")

  const build = (server: string, changed: Readonly<Record<string, string | null>>) => {
    const own = new URLSearchParams(parameters)
    for (const [name, value] of Object.entries(changed)) {
      if (value !== null) own.set(name, value)
    }
    const text = own.toString()
    return `${scheme}${user}${server}${path}${text === "" ? "" : `?${text}`}`
  }
  // A URL has a user only with a host. The parameter replaces this one.
  const replaced = named === "" && user !== "" ? "localhost" : named
  const urls = host == null
    ? hostsOfAuthority(named, port ?? null).map((server) => build(server, {}))
    : hostsOfParameters(host, port ?? null).map(([one, itsPort]) => build(replaced, { host: one, port: itsPort }))
  if (!urls.every((one) => URL.canParse(one))) throw invalid("has an invalid host, port, user or password")
  return {
    urls: urls as [string, ...Array<string>],
    mustBePrimary: role === "primary" && (target == null ? urls.length > 1 : target !== "any")
  }
}
