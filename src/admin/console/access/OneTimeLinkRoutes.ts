/**
 * Access by the one-time link that the process prints on its terminal.
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Redacted from "effect/Redacted"
import { ConsoleAssets, stylesheetOf } from "../ConsoleAssets.ts"
import { noticePage } from "../noticePage.ts"
import { ConsoleAddress } from "./ConsoleAddress.ts"
import { OneTimeLink } from "./OneTimeLink.ts"
import { makeSignIn } from "./signIn.ts"

const loginPath = "/console/login"

/**
 * Prints a new link, if the last one was used or has expired. It goes to standard output, because the log goes to standard error: the
 * collector of a log must not receive it.
 */
export const printLink = Effect.gen(function*() {
  const { origin } = yield* ConsoleAddress
  const token = yield* (yield* OneTimeLink).renew
  if (token !== null) yield* Console.log(`Console: ${origin}${loginPath}?token=${Redacted.value(token)}`)
})

/** What a visitor without a session reads. */
export const linkNotice = {
  title: "Sign in",
  text: [
    "The terminal of this process shows a link that starts with \"Console:\". Open that link.",
    "Each link works once, for 15 minutes. If yours no longer works, this visit has printed a new one, at most one each minute."
  ]
}

const staleLink = {
  title: "This link no longer works",
  text: ["It was used, has expired, or is not complete. The terminal shows a new one within a minute: reload the console."],
  link: { text: "Open the console", path: "/console" },
  status: 403
}

/** Browsers load pages ahead while an address is typed. That must not use up the link. */
const isPrefetch = ({ headers, method }: HttpServerRequest): boolean =>
  method !== "GET" || (headers["sec-purpose"] ?? "").includes("prefetch")

/** `GET /console/login`. `operator` is the name in the records of actions. */
export const OneTimeLinkRoutes = (operator: string) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const link = yield* OneTimeLink
    const signIn = yield* makeSignIn
    const stylesheet = stylesheetOf(yield* ConsoleAssets)
    const address = yield* ConsoleAddress
    const reprint = printLink.pipe(
      Effect.provideService(OneTimeLink, link),
      Effect.provideService(ConsoleAddress, address)
    )
    yield* router.add(
      "GET",
      loginPath,
      Effect.gen(function*() {
        if (isPrefetch(yield* HttpServerRequest)) return noticePage(stylesheet, { ...linkNotice, status: 503 })
        const { token } = yield* ParsedSearchParams
        if (typeof token === "string" && (yield* link.redeem(token))) {
          return yield* signIn(operator, "one-time link", "/console")
        }
        yield* reprint
        return noticePage(stylesheet, staleLink)
      })
    )
  }))
