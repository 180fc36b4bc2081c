/**
 * The list of problems, as a page for people.
 */
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import { type Html, html, joined, prose } from "./Html.ts"
import type { PageContent } from "./Page.ts"
import { type ProblemGroup, problemGroups } from "./ProblemGroups.ts"

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

const section = ({ codes, id, meaning, title }: ProblemGroup): Html =>
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
    joined(problemGroups.map(({ codes, id, title }) =>
      html`<li><a href="#${id}">${title}</a> <span class="soft">${codes.length}</span></li>`
    ))
  }</ul></nav>
${joined(problemGroups.map(section))}`
}
