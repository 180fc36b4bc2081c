/**
 * The pages that the server itself writes, as static HTML: how to sign in, and why it failed.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}

const escape = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => escapes[character]!)

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
  const head = [
    "<meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
    ...next === undefined ? [] : [`<meta http-equiv="refresh" content="0;url=${escape(next)}">`],
    `<title>${escape(title)} - Financial Agents Gateway</title>`,
    ...stylesheet === null ? [] : [`<link rel="stylesheet" href="${escape(stylesheet)}">`]
  ]
  const body = [
    `<h1>${escape(title)}</h1>`,
    ...text.map((paragraph) => `<p>${escape(paragraph)}</p>`),
    ...link === undefined ? [] : [`<p><a class="button" href="${escape(link.path)}">${escape(link.text)}</a></p>`]
  ]
  const page = `<html lang="en"><head>${head.join("")}</head><body><main class="notice">${
    body.join("")
  }</main></body></html>`
  return HttpServerResponse.text(`<!doctype html>${page}\n`, { status, contentType: "text/html; charset=utf-8" })
}
