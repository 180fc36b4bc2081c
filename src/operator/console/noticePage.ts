/**
 * The pages that the server itself writes, as static HTML: how to sign in, and why it failed.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { html, joined } from "../../server/pages/Html.ts"

export interface Notice {
  readonly title: string
  readonly text: ReadonlyArray<string>
  /** A link of the console, as a button. */
  readonly link?: { readonly text: string; readonly path: string }
  /** A path of the console. The browser goes there by itself. */
  readonly next?: string
  /** Default: 200. */
  readonly status?: number
}

/** `stylesheet` is its path. Null: none. */
export const noticePage = (
  stylesheet: string | null,
  { link, next, status = 200, text, title }: Notice
): HttpServerResponse.HttpServerResponse => {
  const refresh = next === undefined ? html`` : html`<meta http-equiv="refresh" content="0;url=${next}">`
  const style = stylesheet === null ? html`` : html`<link rel="stylesheet" href="${stylesheet}">`
  const button = link === undefined ? html`` : html`<p><a class="button" href="${link.path}">${link.text}</a></p>`
  const { markup } = html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
${refresh}<title>${title} - Financial Agents Gateway</title>${style}</head><body><main class="notice"><h1>${title}</h1>${
    joined(text.map((paragraph) => html`<p>${paragraph}</p>`))
  }${button}</main></body></html>
`
  return HttpServerResponse.text(markup, { status, contentType: "text/html; charset=utf-8" })
}
