/**
 * One problem, as a page for people.
 */
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import { type Html, html, joined, prose } from "./Html.ts"
import type { PageContent } from "./Page.ts"
import { problemExample } from "./ProblemExamples.ts"
import { groupOf } from "./ProblemGroups.ts"

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
  const group = groupOf(code)
  const others = (Object.keys(problemKinds) as ReadonlyArray<ProblemCode>)
    .filter((other) => other !== code && problemKinds[other].status === kind.status)
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
      }<p class="end"><a href="../problems">All error codes</a> · <a href="../docs">API reference</a></p>
`
  }
}
