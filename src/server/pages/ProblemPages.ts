/** The pages of problems for people: the list in groups, and one page for each problem. */
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import { makeProblem } from "../../api/Problems.ts"
import type { RequestId } from "../../domain/RequestId.ts"
import { problemJson } from "../gate/ProblemResponses.ts"
import { type Html, html, joined, prose } from "./Html.ts"
import type { PageContent } from "./Page.ts"

const readPath = "/v1/operations"

interface Request {
  readonly path: string
  /** The arguments of curl. `URL` stands for the base URL, and `$TOKEN` for an access token. */
  readonly curl?: string
}

/** More bytes than the gateway reads, as a shell makes them. */
const many = (bytes: number) => `$(head -c ${bytes} /dev/zero | tr '\\0' x)`

const authorized = "-H \"Authorization: Bearer $TOKEN\""

const operationPath = `${readPath}/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f`

const requests: Readonly<Partial<Record<ProblemCode, Request>>> = {
  malformed_request: { path: "/healthz", curl: "'URL/healthz?access_token=example'" },
  missing_credentials: { path: readPath, curl: `URL${readPath}` },
  invalid_token: { path: readPath, curl: `-H 'Authorization: Bearer example' URL${readPath}` },
  operation_not_found: { path: operationPath, curl: `${authorized} URL${operationPath}` },
  change_token_expired: { path: `${readPath}/changes` },
  route_not_found: { path: "/nowhere", curl: "URL/nowhere" },
  method_not_allowed: { path: "/healthz", curl: "-X DELETE URL/healthz" },
  not_acceptable: { path: "/problems", curl: "-H 'Accept: image/png' URL/problems" },
  payload_too_large: { path: "/healthz", curl: `-X GET -d "${many(70_000)}" URL/healthz` },
  uri_too_long: { path: "/healthz", curl: `"URL/healthz?x=${many(9000)}"` },
  // The gateway refuses it before it has read the path.
  headers_too_large: { path: "/healthz", curl: `-H "X-Long: ${many(20_000)}" URL/healthz` },
  invalid_request: { path: "/healthz", curl: "'URL/healthz?x=1'" },
  invalid_page_token: { path: readPath, curl: `${authorized} 'URL${readPath}?page_token=example'` },
  not_ready: { path: "/readyz" },
  idempotency_key_required: { path: "/v1/payments" },
  unsupported_media_type: { path: "/v1/payments" },
  idempotency_key_reused: { path: "/v1/payments" },
  limit_exceeded: { path: "/v1/payments" },
  payee_not_allowed: { path: "/v1/payments" },
  operation_not_covered: { path: "/v1/payments" },
  terms_required: { path: "/v1/payments" }
}

const id = "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10" as RequestId

interface ProblemExample {
  /** The body of the response: indented JSON. */
  readonly body: string
  /** The command that causes the problem; null if only a grant, a fault or a load causes it. */
  readonly command: string | null
}

/** Makes the example of a problem, for a gateway at this base URL. */
export const problemExample = (baseUrl: string, code: ProblemCode): ProblemExample => {
  const { curl, path } = requests[code] ?? { path: readPath }
  const { fields }: ProblemKind = problemKinds[code]
  const problem = makeProblem(baseUrl, { id, path }, code, { fields })
  return {
    body: JSON.stringify(JSON.parse(problemJson(problem)), null, 2),
    command: curl === undefined ? null : `curl ${curl.replace("URL", () => baseUrl)}`
  }
}

const allCodes = Object.keys(problemKinds) as ReadonlyArray<ProblemCode>

const groupIdOf = ({ retryable, status }: ProblemKind): string => {
  if (retryable) return "not-now"
  if (status === 401 || status === 403) return "credential"
  return status >= 500 ? "gateway" : "request"
}

/** The groups of problems by what they are about, with the problems of each by status. */
const groups = [
  ["request", "Your request", "The request cannot succeed as it is. Correct it before you send it again."],
  ["credential", "Your credential", "The access token or its grant does not permit the request."],
  ["not-now", "Not now", "The identical request can succeed later. Wait as long as Retry-After says."],
  ["gateway", "The gateway", "The gateway failed. Do not repeat the request by itself."]
].map(([id = "", title = "", meaning = ""]) => ({
  id,
  title,
  meaning,
  codes: allCodes.filter((code) => groupIdOf(problemKinds[code]) === id)
    .toSorted((a, b) => problemKinds[a].status - problemKinds[b].status)
}))

const row = (code: ProblemCode): Html => {
  const { meaning, status, title }: ProblemKind = problemKinds[code]
  return html`<tr id="${code}">
<td>${status}</td>
<th scope="row"><a href="problems/${code}">${title}</a> <span class="soft"><code>${code}</code></span><p>${
    prose(meaning)
  }</p></th>
</tr>
`
}

const section = ({ codes, id, meaning, title }: typeof groups[number]): Html =>
  html`<section aria-labelledby="${id}">
<h2 id="${id}">${title}</h2>
<p class="soft">${meaning}</p>
<table>
<thead><tr><th scope="col">Status</th><th scope="col">Error code and meaning</th></tr></thead>
<tbody>
${joined(codes.map(row))}</tbody>
</table>
</section>
`

/** The page of all problems, in groups. */
export const problemsPage: PageContent = {
  title: "Error codes",
  root: "./",
  current: "problems",
  main: html`<h1>Error codes</h1>
<p class="lead">Every error of this service is a problem document (RFC 9457). Its member <code>code</code> has one of these values,
and its <code>type</code> is the address of the page about it.</p>
<p class="soft">Programs get this list as JSON, with the header <code>Accept: application/json</code>.</p>
<nav aria-label="Groups"><ul>${
    joined(groups.map(({ codes, id, title }) =>
      html`<li><a href="#${id}">${title}</a> <span class="soft">${codes.length}</span></li>`
    ))
  }</ul></nav>
${joined(groups.map(section))}`
}

const facts = ({ retryable, status }: ProblemKind): Html =>
  html`<dl class="facts">
<div><dt>HTTP status</dt><dd>${status}</dd></div>
<div><dt>Retry the same request</dt><dd>${retryable ? html`<span class="yes">Yes, later</span>` : "No"}</dd></div>
</dl>
`

const attempt = (command: string): Html =>
  html`<h2>Try it</h2>
<p>This command causes the problem and changes nothing.${
    command.includes("$TOKEN") ? html` <code>TOKEN</code> is an access token.` : ""
  }</p>
<pre><code>${command}</code></pre>
`

const related = (codes: ReadonlyArray<ProblemCode>, status: number): Html =>
  html`<h2>Other problems with status ${status}</h2>
<ul class="links">${
    joined(codes.map((code) =>
      html`<li><a href="../problems/${code}">${problemKinds[code].title}</a> <code class="soft">${code}</code></li>
`
    ))
  }</ul>
`

/** The page of one problem, for a gateway at this base URL. */
export const problemPage = (baseUrl: string, code: ProblemCode): PageContent => {
  const kind: ProblemKind = problemKinds[code]
  const { body, command } = problemExample(baseUrl, code)
  const group = groups.find(({ codes }) => codes.includes(code))!
  const others = allCodes.filter((other) => other !== code && problemKinds[other].status === kind.status)
  return {
    title: kind.title,
    root: "../",
    main:
      html`<p class="soft"><a href="../problems">Error codes</a> / <a href="../problems#${group.id}">${group.title}</a></p>
<h1>${kind.title}</h1>
<p class="name"><code>${code}</code></p>
${facts(kind)}<h2>Meaning</h2>
<p>${prose(kind.meaning)}</p>
<h2>What to do</h2>
<p>${prose(kind.action)}</p>
<h2>Example</h2>
<pre><code>${body}</code></pre>
${command === null ? "" : attempt(command)}${
        others.length === 0 ? "" : related(others, kind.status)
      }<p class="end"><a href="../problems">All error codes</a> &middot; <a href="../docs">API reference</a></p>
`
  }
}
