/**
 * The begin of a session: the session, its cookie, and the way to the page. The pages that the server itself
 * writes, as static HTML: how to sign in, and why it failed.
 *
 * The room `operator/console/access`: how an operator signs in to the console. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Redacted from "effect/Redacted"
import { respond } from "../../../server/gate/FailureResponses.ts"
import { Problems } from "../../../server/gate/ProblemResponses.ts"
import { preferredForm } from "../../../server/gate/RequestChecks.ts"
import { CurrentRequest } from "../../../server/gate/RequestContext.ts"
import { html, joined } from "../../../server/pages/Html.ts"
import { ConsoleAssets, stylesheetOf } from "../ConsoleAssets.ts"
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

export interface Notice {
  readonly title: string
  readonly text: ReadonlyArray<string>
  /** A link of the console, as a button. */
  readonly link?: { readonly text: string; readonly path: string }
  /** A path of the console. The browser goes there by itself. */
  readonly next?: string
  /** The problem that the page tells of. Programs get it in place of the page. None: the page tells of no error. */
  readonly code?: "sign_in_refused" | "service_unavailable"
}

type Respond = (notice: Notice) => Effect.Effect<HttpServerResponse.HttpServerResponse, never, HttpServerRequest>

/** Makes the responses with a notice. A page of an error names its code and the request id. */
export const makeNoticePage: Effect.Effect<Respond, never, ConsoleAssets | Problems> = Effect.gen(function*() {
  const problems = yield* Problems
  const stylesheet = stylesheetOf(yield* ConsoleAssets)
  return (notice) => {
    const { code, text } = notice
    if (code === undefined) return Effect.succeed(pageOf(stylesheet, notice, 200))
    return Effect.gen(function*() {
      const problem = yield* respond(problems.fail(code, { detail: text.join(" ") }))
      const id = (yield* CurrentRequest)?.id
      return preferredForm((yield* HttpServerRequest).headers) === "page"
        ? pageOf(stylesheet, { ...notice, text: [...text, `${code}, request ${id}`] }, problem.status)
        : problem
    })
  }
})

/** As the header of the console has it. */
const brand =
  html`<svg viewBox="0 0 32 32" aria-hidden="true" width="22" height="22"><rect width="32" height="32" rx="7" class="brand-ground"/><path d="M8 22v-6m5.3 6V10m5.4 12v-9M24 22v-4" class="brand-bars"/></svg>`

const pageOf = (
  stylesheet: string | null,
  { link, next, text, title }: Notice,
  status: number
): HttpServerResponse.HttpServerResponse => {
  const refresh = next === undefined ? html`` : html`<meta http-equiv="refresh" content="0;url=${next}">`
  const style = stylesheet === null ? html`` : html`<link rel="stylesheet" href="${stylesheet}">`
  const button = link === undefined ? html`` : html`<p><a class="button" href="${link.path}">${link.text}</a></p>`
  const { markup } = html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
${refresh}<title>${title} - Financial Agents Gateway</title>${style}</head><body><header class="header"><span class="brand">${brand}Financial Agents Gateway</span></header>
<main class="notice"><h1>${title}</h1>${
    joined(text.map((paragraph) => html`<p>${paragraph}</p>`))
  }${button}</main></body></html>
`
  return HttpServerResponse.text(markup, { status, contentType: "text/html; charset=utf-8" })
}
