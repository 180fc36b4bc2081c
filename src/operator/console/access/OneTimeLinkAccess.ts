/** Access by a link that the process prints on its terminal: for one use, within a quarter of an hour. */
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { ConsoleAddress } from "./ConsoleAddress.ts"
import { digestOf, isSameSecret, newSecret } from "./Sessions.ts"
import { ConsoleAccess, makeNoticePage, makeSignIn, type Notice } from "./signIn.ts"

const loginPath = "/console/login"

/** Milliseconds for which an unused token is valid. */
const lifetime = 15 * 60_000

/** Milliseconds between two tokens at least: visitors without a session must not fill the terminal. */
const interval = 60_000

const makeOneTimeToken = Effect.map(Clock.Clock, (clock) => {
  const now = () => clock.currentTimeMillisUnsafe()
  let issuedAt = Number.NEGATIVE_INFINITY
  /** SHA-256 of the token. Null: there is none, or it was used. */
  let digest: string | null = null

  const isValid = () => digest !== null && now() < issuedAt + lifetime

  return {
    /** A new token, which replaces the one before. Null if the last one is younger than a minute, or can still be used. */
    renew: (): string | null => {
      if (isValid() || now() < issuedAt + interval) return null
      const token = newSecret()
      issuedAt = now()
      digest = digestOf(token)
      return token
    },
    /** Whether this is the token. It is used up then: of two concurrent calls, one succeeds. */
    redeem: (token: string): boolean => {
      if (digest === null || !isValid() || !isSameSecret(digestOf(token), digest)) return false
      digest = null
      return true
    }
  }
})

const notice = {
  title: "Sign in",
  text: [
    "The terminal of this process shows a link that begins with \"Console:\". Open that link.",
    "A link works once, within 15 minutes. If it no longer works, reload this page: the terminal then shows a new one, at most one a "
    + "minute."
  ]
}

const staleLink: Notice = {
  title: "This link does not work",
  text: ["It was used, it has expired, or it is not complete. Open the console: the terminal then shows a new link."],
  link: { text: "Open the console", path: "/console" },
  code: "sign_in_refused"
}

/** Browsers load a page ahead while its address is typed, and programs look at links. Neither must use up the link. */
const isLookAhead = ({ headers, method }: HttpServerRequest): boolean =>
  method !== "GET" || (headers["sec-purpose"] ?? "").includes("prefetch")

/** Prints the first link, and serves `GET /console/login`. `operator` is the name in the records of actions. */
export const OneTimeLinkAccess = (operator: string) =>
  Layer.effect(
    ConsoleAccess,
    Effect.gen(function*() {
      const router = yield* HttpRouter.HttpRouter
      const link = yield* makeOneTimeToken
      const signIn = yield* makeSignIn
      const { origin } = yield* ConsoleAddress
      const noticePage = yield* makeNoticePage

      /** To standard output, because the log goes to standard error: a collector of logs must not receive the token. */
      const printLink = Effect.suspend(() => {
        const token = link.renew()
        return token === null ? Effect.void : Console.log(`Console: ${origin}${loginPath}?token=${token}`)
      })

      yield* router.add(
        "GET",
        loginPath,
        Effect.gen(function*() {
          if (isLookAhead(yield* HttpServerRequest)) {
            return yield* noticePage({ ...staleLink, code: "service_unavailable" })
          }
          const { token } = yield* ParsedSearchParams
          return typeof token === "string" && link.redeem(token)
            ? yield* signIn(operator, "one-time link", "/console")
            : yield* noticePage(staleLink)
        })
      )
      yield* printLink
      return ConsoleAccess.of({ notice: () => Effect.as(printLink, notice) })
    })
  )
