/**
 * `WITNESS`: which store is the witness, and how to connect to it. What the gateway does not support is an error, and is not ignored.
 */
import * as Redacted from "effect/Redacted"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { readDatabaseUrl } from "../../node/postgres/driver/databaseUrl.ts"

/** Files in PEM. */
export interface WitnessTls {
  readonly cacert?: string
  readonly cert?: string
  readonly key?: string
}

export type WitnessAddress =
  | {
    readonly _tag: "Etcd"
    readonly endpoints: readonly [string, ...ReadonlyArray<string>]
    readonly prefix: string
    readonly user: { readonly name: string; readonly password: Redacted.Redacted<string> } | null
    readonly tls: WitnessTls
  }
  | { readonly _tag: "Postgres"; readonly url: Redacted.Redacted<string> }

/** Repeats nothing of the URL but names of parameters, because the rest may be a password. */
const invalid = (message: string) => new InvalidSetting({ message: `WITNESS ${message}` })

const forms =
  "must be etcd://HOST:PORT[,HOST:PORT…]/PREFIX, etcds://… for TLS, or postgres://USER:PASSWORD@HOST/DATABASE"

const parts =
  /^etcd(?<secure>s?):\/\/(?:(?<user>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?:\/(?<prefix>[^?#]*))?(?:\?(?<query>[^#]*))?$/u

const files = ["cacert", "cert", "key"] as const

const decode = (text: string, of: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid(`has an invalid ${of}: percent-encode its special characters`)
  }
}

const readUser = (text: string | undefined) => {
  if (text === undefined) return null
  const [name = "", ...rest] = text.split(":")
  if (name === "" || rest.length !== 1 || rest[0] === "") {
    throw invalid("must have a user and a password before the @, or neither")
  }
  return { name: decode(name, "user"), password: Redacted.make(decode(rest[0]!, "password")) }
}

const readEndpoint = (host: string, scheme: string): string => {
  const url = `${scheme}://${host.includes(":") ? host : `${host}:2379`}`
  if (host === "" || !URL.canParse(url)) throw invalid("has an invalid host or port")
  return url
}

/** A pattern would look at each slash of a long row again and again. */
const withoutSlashes = (text: string): string => {
  let end = text.length
  while (text[end - 1] === "/") end--
  return text.slice(0, end)
}

/** There is no default: two ledgers with one prefix would hold each other's operations. */
const readPrefix = (text: string): string => {
  const prefix = withoutSlashes(decode(text, "prefix"))
  if (prefix === "") throw invalid("needs a prefix that no other ledger uses: end the hosts with /PREFIX")
  return prefix
}

const readFiles = (query: string, isSecure: boolean): WitnessTls => {
  const parameters = new URLSearchParams(query)
  for (const name of parameters.keys()) {
    if (!files.some((file) => file === name)) throw invalid("has an unsupported parameter: use cacert, cert and key")
    if (parameters.getAll(name).length > 1) throw invalid(`has the parameter ${name} more than once`)
    if (parameters.get(name) === "") throw invalid(`has an empty ${name}`)
  }
  if (parameters.size > 0 && !isSecure) throw invalid("has certificates without TLS: begin it with etcds://")
  if (parameters.has("cert") !== parameters.has("key")) throw invalid("needs both of cert and key, or neither")
  return Object.fromEntries(parameters) as WitnessTls
}

const readPostgres = (text: string): WitnessAddress => {
  const { urls } = (() => {
    try {
      return readDatabaseUrl(text)
    } catch (error) {
      throw invalid(error instanceof Error ? `is invalid: ${error.message}` : "is invalid")
    }
  })()
  if (urls.length > 1) throw invalid("takes one host of PostgreSQL, such as a virtual address")
  return { _tag: "Postgres", url: Redacted.make(urls[0]) }
}

/** Reads the setting. Throws `InvalidSetting`. */
export const readWitnessUrl = (setting: string): WitnessAddress => {
  // A file with the URL may end in a line break.
  const text = setting.trim()
  if (/^postgres(?:ql)?:\/\//iu.test(text)) return readPostgres(text)
  const { hosts, prefix = "", query = "", secure, user } = parts.exec(text)?.groups ?? {}
  if (hosts === undefined) throw invalid(forms)
  const scheme = secure === "s" ? "https" : "http"
  const [first, ...others] = hosts.split(",").map((host) => readEndpoint(host, scheme))
  return {
    _tag: "Etcd",
    endpoints: [first!, ...others],
    user: readUser(user),
    tls: readFiles(query, secure === "s"),
    prefix: readPrefix(prefix)
  }
}
