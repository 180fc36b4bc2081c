/**
 * The room `server/pages`: the pages for people, at `/` and `/problems`. Read this file first.
 *
 * The frame of the pages for people, and the responses that carry them. A page has no script and loads nothing.
 */
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { pageMediaType } from "../../api/HasPages.ts"
import { hashSource, Html, html, joined } from "./Html.ts"
import { pageStyle } from "./PageStyle.ts"

type Section = "home" | "problems"

/** What a page shows. */
export interface PageContent {
  readonly title: string
  readonly main: Html
  /** The path from the page to the root of the gateway: links are relative, so they work behind any host and prefix. */
  readonly root: "./" | "../"
  /** The entry of the navigation that is this page. */
  readonly current?: Section
}

/** The name of the service on its pages. */
export const gatewayName = "Financial Agents Gateway"

const navigation = (root: string, current: Section | undefined): Html => {
  const entry = (href: string, name: string, section?: Section) =>
    section !== undefined && section === current
      ? html`<li><a href="${href}" aria-current="page">${name}</a></li>`
      : html`<li><a href="${href}">${name}</a></li>`
  return html`<nav aria-label="Site"><ul>${
    joined([
      entry(`${root}docs`, "API reference"),
      entry(`${root}problems`, "Error codes", "problems"),
      entry(`${root}openapi.json`, "OpenAPI")
    ])
  }</ul></nav>`
}

// The empty icon: without it, browsers ask for /favicon.ico.
const document = (style: Html, { current, main, root, title }: PageContent): Html =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title.startsWith(gatewayName) ? title : `${title} – ${gatewayName}`}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<a href="${root}"${current === "home" ? html` aria-current="page"` : ""}>${gatewayName}</a>
${navigation(root, current)}
</header>
<div class="rule"></div>
<main id="content">
${main}
</main>
</body>
</html>
`

/** Makes the response of a page, with this status. Caches do not store it, as they do not store its form in JSON. */
type RespondWithPage = (content: PageContent, status?: number) => HttpServerResponse.HttpServerResponse

/** Makes the policy once: the hash of the stylesheet is the same for each page. */
export const makeRespondWithPage: Effect.Effect<RespondWithPage> = Effect.map(hashSource(pageStyle), (hash) => {
  const policy = `default-src 'none'; style-src ${hash}; img-src data:; base-uri 'none'; form-action 'none'; `
    + "frame-ancestors 'none'"
  // The hash is that of the text as it stands: it may not be escaped.
  const style = new Html(pageStyle)
  return (content, status = 200) =>
    HttpServerResponse.text(document(style, content).markup, {
      status,
      contentType: `${pageMediaType}; charset=utf-8`,
      headers: { "content-security-policy": policy, "cache-control": "no-store" }
    })
})
