/**
 * The pages that the server itself writes, as static HTML: how to sign in, and why it failed.
 */
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { respond } from "../../server/gate/FailureResponses.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { preferredForm } from "../../server/gate/RequestChecks.ts"
import { CurrentRequest } from "../../server/gate/RequestContext.ts"
import { html, joined } from "../../server/pages/Html.ts"
import { ConsoleAssets, stylesheetOf } from "./ConsoleAssets.ts"

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
