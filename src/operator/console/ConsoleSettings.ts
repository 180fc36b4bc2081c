/** The settings of the console, and which of them belong together. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { loopbackHosts, parseBaseUrl } from "../../http/OutgoingRequest.ts"

/** The issuer at which operators sign in (OpenID Connect). */
export interface OidcSettings {
  /** As its metadata spell it (`CONSOLE_OIDC_ISSUER`). */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted<string>
  /** The role that an operator must have. */
  readonly role: string
  /** The claim of the ID token with the roles: its name, or the names on the way to it, with dots between them. */
  readonly roleClaim: string
}

export interface ConsoleSettings {
  /** The origin at which browsers reach the console (`CONSOLE_URL`). Null: the listener, by a loopback name. */
  readonly url: string | null
  /** Null: operators get in by the one-time link. */
  readonly oidc: OidcSettings | null
  /** The name in the records of actions after access by the link. */
  readonly operator: string
  readonly version: string
}

/** Settings of the console are missing, invalid or not safe together. The message is one sentence, and repeats no secret. */
export class InvalidConsoleSetting
  extends Schema.TaggedError<InvalidConsoleSetting>()("InvalidConsoleSetting", { message: Schema.String })
{}

const invalid = (message: string) => Effect.fail(new InvalidConsoleSetting({ message }))

const isLoopback = (url: string): boolean => loopbackHosts.has(new URL(url).hostname)

/** A secret may go to it: by https, or without leaving this machine. */
const isProtected = (url: string): boolean => url.startsWith("https://") || isLoopback(url)

const readText = (name: string) =>
  Effect.map(
    Config.option(Config.String(name)),
    (text) => Option.getOrNull(Option.filter(text, (text) => text.trim() !== ""))
  )

const readUrl = Effect.gen(function*() {
  const text = yield* readText("CONSOLE_URL")
  if (text === null) return null
  const url = parseBaseUrl(text)
  if (url === null || !["/", "/console"].includes(new URL(url).pathname)) {
    return yield* invalid(
      "CONSOLE_URL must be the URL at which browsers reach the console, such as https://console.example"
    )
  }
  if (!isProtected(url)) return yield* invalid("CONSOLE_URL must begin with https://: browsers send the session to it")
  return new URL(url).origin
})

const required = Effect.fnUntraced(function*(name: string) {
  const text = yield* readText(name)
  return text ?? (yield* invalid(`${name} is missing: sign-in at CONSOLE_OIDC_ISSUER needs it`))
})

const readOidc = Effect.gen(function*() {
  const issuer = yield* readText("CONSOLE_OIDC_ISSUER")
  if (issuer === null) return null
  if (parseBaseUrl(issuer) === null || !isProtected(issuer)) {
    return yield* invalid("CONSOLE_OIDC_ISSUER must be the https URL of an issuer, as its metadata spell it")
  }
  const clientId = yield* required("CONSOLE_OIDC_CLIENT_ID")
  yield* required("CONSOLE_OIDC_CLIENT_SECRET")
  const clientSecret = yield* Config.Redacted("CONSOLE_OIDC_CLIENT_SECRET")
  const role = yield* required("CONSOLE_OIDC_ROLE")
  return { issuer, clientId, clientSecret, role, roleClaim: (yield* readText("CONSOLE_OIDC_ROLE_CLAIM")) ?? "roles" }
})

/** The host as URLs write it. */
const nameOf = (host: string): string => host.includes(":") ? `[${host}]` : host

/** An operator's name in the records of actions. */
const isName = (name: string): boolean => name.trim() !== "" && name.length <= 255

/**
 * Reads `CONSOLE_URL` and the settings of the issuer. Fails if other machines could reach the console without an issuer or without https.
 * `host` is the address of the listener.
 */
export const readConsoleSettings = Effect.fnUntraced(
  function*(
    { host, operator, version }: { readonly host: string; readonly operator: string; readonly version: string }
  ) {
    const url = yield* readUrl
    const oidc = yield* readOidc
    const isReachable = !loopbackHosts.has(nameOf(host)) || (url !== null && !isLoopback(url))
    if (isReachable && (oidc === null || url === null || !url.startsWith("https://"))) {
      return yield* invalid(
        "a console that other machines reach needs CONSOLE_OIDC_ISSUER and a CONSOLE_URL with https: set both, or listen on 127.0.0.1"
      )
    }
    if (oidc !== null && url === null) {
      return yield* invalid("CONSOLE_URL is missing: the issuer at CONSOLE_OIDC_ISSUER sends browsers back to it")
    }
    if (!isName(operator)) return yield* invalid("OPERATOR must be a name of 1 to 255 characters")
    return { url, oidc, operator, version } satisfies ConsoleSettings
  }
)
