/** The page at `/`: what the gateway is, and where its documentation is. */
import { type OperationState } from "../../domain/Operation.ts"
import { type Html, html, joined } from "./Html.ts"
import { gatewayName, type PageContent } from "./Page.ts"

const states: Readonly<Record<OperationState, string>> = {
  accepted: "The ledger has the operation. No worker has started to submit it.",
  submitting: "A worker submits it to the provider.",
  submitted: "The provider has it. The result is open.",
  indeterminate: "The network failed after it may have been sent. Only a status read settles it.",
  succeeded: "Final. The provider carried it out.",
  failed: "Final. It was not carried out.",
  cancelled: "Final. It was cancelled before a worker submitted it."
}

const state = ([name, meaning]: readonly [string, string]): Html =>
  html`<dt><code>${name}</code></dt><dd>${meaning}</dd>
`

const place = (path: string, what: string): Html =>
  html`<li><a href="${path.slice(1)}"><code>${path}</code></a> <span>${what}</span></li>
`

/** The address of the endpoint for agents is no link: it answers POST alone. */
const endpointForAgents =
  html`<li><code>/mcp</code> <span>Tools for language-model agents (Model Context Protocol)</span></li>
`

const commands = (baseUrl: string): string =>
  `curl ${baseUrl}/healthz
TOKEN=… # your access token
curl -H "Authorization: Bearer $TOKEN" ${baseUrl}/v1/operations
curl -H "Authorization: Bearer $TOKEN" ${baseUrl}/v1/operations/changes`

/** The same in short, as text for people without a browser. */
export const frontText = (baseUrl: string, title: string): string =>
  `${title}: durable operations of financial agents, submitted at most once.

curl ${baseUrl}/readyz
curl -H "Authorization: Bearer $TOKEN" ${baseUrl}/v1/operations   # TOKEN: your access token
curl ${baseUrl}/problems   # error codes, with what to do about each

In a browser: ${baseUrl}/docs
`

/** The page at `/`, for a gateway at this base URL. `title` is that of the API reference. `hasAgents`: it has the endpoint for agents. */
export const frontPage = (baseUrl: string, title: string, hasAgents: boolean): PageContent => ({
  title: gatewayName,
  root: "./",
  current: "home",
  main: html`<h1>${title}</h1>
<p class="lead">This service records financial requests of agents as durable operations, and submits each to its provider at most
once. Clients read what became of an operation through grants that their owners can revoke.</p>
<h2>Begin</h2>
<p>The operator of this gateway, or its authorization server, gives you an access token.</p>
<pre><code>${commands(baseUrl)}</code></pre>
<h2>Documentation</h2>
<ul class="links">
${
    joined([
      place("/docs", "API reference"),
      place("/openapi.json", "OpenAPI document, for tools and generated clients"),
      place("/problems", "Error codes, with what to do about each"),
      ...hasAgents ? [endpointForAgents] : [],
      place("/healthz", "Whether the process answers: for supervisors"),
      place("/readyz", "Whether it can serve requests now: for load balancers")
    ])
  }</ul>
<h2>States of an operation</h2>
<dl class="states">
${joined(Object.entries(states).map(state))}</dl>
`
})
