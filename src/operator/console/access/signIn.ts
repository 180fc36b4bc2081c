/**
 * The begin of a session: the session, its cookie, and the way to the page.
 *
 * The room `access`: how an operator signs in to the console. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Redacted from "effect/Redacted"
import { makeNoticePage, type Notice } from "../noticePage.ts"
import { ConsoleAddress, readCookie, setCookie } from "./ConsoleAddress.ts"
import { Sessions } from "./Sessions.ts"

export class ConsoleAccess extends Context.Service<ConsoleAccess, {
  /** What a visitor without a session reads, who asked for a path of the console. */
  readonly notice: (path: string) => Effect.Effect<Notice>
}>()("financial-agents-gateway/operator/console/access/ConsoleAccess") {}

/** How an operator signed in. */
type SignInMethod = "one-time link" | "issuer"

/**
 * Makes the response that begins a session and continues at `next`. It is a page and no redirect, because browsers send cookies for
 * the same site only with requests that a page of this site makes. It also removes secrets from the address bar.
 */
export const makeSignIn = Effect.gen(function*() {
  const address = yield* ConsoleAddress
  const sessions = yield* Sessions
  const noticePage = yield* makeNoticePage
  return Effect.fnUntraced(function*(operator: string, method: SignInMethod, next: string) {
    const { headers } = yield* HttpServerRequest
    // The session id is always new. One that the browser had before ends.
    const before = readCookie(address, headers, "session")
    const old = before === null ? null : yield* sessions.find(before, { prolongs: false })
    if (old !== null) yield* sessions.end(old)
    const { id } = yield* sessions.start(operator)
    yield* Effect.annotateLogs(Effect.logInfo("Operator signed in"), { operator, method })
    const page = yield* noticePage({
      title: "Signed in",
      text: [`You are signed in as ${operator}.`],
      link: { text: "Continue", path: next },
      next
    })
    return setCookie(page, address, "session", Redacted.value(id))
  })
})
