/**
 * Access through the issuer of the team. The way of a browser:
 *
 *     GET /console/oidc/start     a cookie with the attempt, and a redirect to the issuer
 *     GET /console/oidc/callback  the answer of the issuer. Browsers withhold the cookie here, because another site leads them; the page
 *                                 continues from the own site
 *     GET /console/oidc/finish    the same answer with the cookie: verified, it begins a session
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { replaceHidden } from "../../../domain/VisibleText.ts"
import { IssuerRefused, type IssuerUnavailable } from "../../../oauth/OpenIdProvider.ts"
import type { OidcSettings } from "../ConsoleSettings.ts"
import { ConsoleAddress, readCookie, removeCookie, setCookie } from "./ConsoleAddress.ts"
import { attemptLifetime, makeLoginAttempts, makeOidcIssuer } from "./OidcIssuer.ts"
import { isSameSecret } from "./Sessions.ts"
import { ConsoleAccess, makeNoticePage, makeSignIn, type Notice } from "./signIn.ts"

type Claims = Readonly<Record<string, unknown>>

/** A claim by its name, or by the names on the way to it with dots between them. A name may itself have dots. */
const claimOf = (claims: Claims, name: string): unknown => {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const part of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Claims)[part]
  }
  return value
}

/** Whether the claim has the role: it is the role, or a list with it. */
export const hasRole = (claims: Claims, claim: string, role: string): boolean => {
  const value = claimOf(claims, claim)
  return value === role || (Array.isArray(value) && value.includes(role))
}

/** Most characters of a name in the records of actions. */
const maxName = 255

/** The name without characters that a person does not see. Empty: it has no others. */
const nameOf = (claim: unknown): string =>
  typeof claim === "string" ? replaceHidden(claim, () => " ").trim().slice(0, maxName).toWellFormed() : ""

/**
 * The name for the records of actions: `preferred_username`, or else `email` if it is verified, or else `sub`. Hidden characters, such as
 * control characters, become spaces. A claim with nothing else counts as missing: no record holds an empty name.
 */
export const operatorOf = (claims: Claims): string => {
  const { email, email_verified, preferred_username, sub } = claims
  const names = [preferred_username, email_verified === true ? email : undefined, sub].map(nameOf)
  return names.find((name) => name !== "") ?? "unknown"
}

const startPath = "/console/oidc/start"
const callbackPath = "/console/oidc/callback"
const finishPath = "/console/oidc/finish"

const again = { text: "Sign in", path: startPath }

const unavailable: Notice = {
  title: "Sign-in is not possible now",
  text: ["The identity provider did not answer. Try again in a moment."],
  link: again,
  code: "service_unavailable"
}

const foreignAttempt: Notice = {
  title: "The sign-in is not complete",
  text: ["It did not begin in this browser, or took longer than ten minutes. Begin again."],
  link: again,
  code: "sign_in_refused"
}

const refused: Notice = {
  title: "You are not signed in",
  text: [
    "The identity provider refused the sign-in, or its answer is not valid. The log of the console has the reason."
  ],
  link: again,
  code: "sign_in_refused"
}

const withoutRole: Notice = {
  title: "You may not use this console",
  text: ["Your account lacks the role of its operators. Ask the team that runs the console."],
  code: "sign_in_refused"
}

/** The members of an answer (RFC 6749 §4.1.2, RFC 9207). Others are dropped. */
const answerMembers = ["code", "state", "iss", "error"]

const answerOf = (query: Readonly<Record<string, string | ReadonlyArray<string>>>): URLSearchParams =>
  new URLSearchParams(answerMembers.flatMap((name) => [query[name] ?? []].flat().map((value) => [name, value])))

const makeFinish = Effect.fnUntraced(function*(settings: OidcSettings) {
  const address = yield* ConsoleAddress
  const attempts = yield* makeLoginAttempts
  const issuer = yield* makeOidcIssuer(settings, `${address.origin}${callbackPath}`)
  const signIn = yield* makeSignIn
  const noticePage = yield* makeNoticePage

  const explain = Effect.fnUntraced(function*(error: IssuerUnavailable | IssuerRefused) {
    const { reason } = error
    yield* Effect.annotateLogs(Effect.logWarning("Sign-in of an operator failed"), { issuer: settings.issuer, reason })
    return yield* noticePage(error instanceof IssuerRefused ? refused : unavailable)
  })

  const start = Effect.gen(function*() {
    const { next } = yield* ParsedSearchParams
    const attempt = attempts.begin(typeof next === "string" ? next : undefined)
    const url = yield* issuer.authorizationUrl(attempt)
    const redirect = HttpServerResponse.redirect(url, { status: 303 })
    return setCookie(redirect, address, "login", attempt.cookie, attemptLifetime)
  })

  const finish = Effect.gen(function*() {
    const { headers } = yield* HttpServerRequest
    const cookie = readCookie(address, headers, "login")
    const attempt = cookie === null ? null : attempts.find(cookie)
    const answer = answerOf(yield* ParsedSearchParams)
    if (attempt === null || !isSameSecret(answer.get("state") ?? "", attempt.state)) {
      return yield* noticePage(foreignAttempt)
    }
    const claims = yield* issuer.claimsFor(answer, attempt)
    const operator = operatorOf(claims)
    if (hasRole(claims, settings.roleClaim, settings.role)) return yield* signIn(operator, "issuer", attempt.next)
    yield* Effect.annotateLogs(Effect.logWarning("Sign-in refused: the role is missing"), { operator })
    return yield* noticePage(withoutRole)
  })

  return {
    start: Effect.catch(start, explain),
    // An attempt has one answer.
    finish: Effect.map(Effect.catch(finish, explain), (page) => removeCookie(page, address, "login")),
    callback: Effect.flatMap(ParsedSearchParams, (query) => {
      const next = `${finishPath}?${answerOf(query).toString()}`
      return noticePage({ title: "Signing in", text: [], link: { text: "Continue", path: next }, next })
    })
  }
})

/** Serves the routes of the sign-in. */
export const OidcAccess = (settings: OidcSettings) =>
  Layer.effect(
    ConsoleAccess,
    Effect.gen(function*() {
      const router = yield* HttpRouter.HttpRouter
      const { callback, finish, start } = yield* makeFinish(settings)
      yield* router.add("GET", startPath, start)
      yield* router.add("GET", callbackPath, callback)
      yield* router.add("GET", finishPath, finish)
      return ConsoleAccess.of({
        notice: (path) =>
          Effect.succeed({
            title: "Sign in",
            text: ["Operators sign in with the account of their team."],
            link: { text: "Sign in", path: `${startPath}?next=${encodeURIComponent(path)}` }
          })
      })
    })
  )
