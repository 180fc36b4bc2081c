/** The stylesheet of the pages. It stands in each page, and the policy of the page allows it by its hash. */

export const pageStyle = `
:root {
  color-scheme: light dark;
  --text: #1b1f24; --soft: #57606a; --line: #d5dae0; --paper: #ffffff; --inset: #f5f7f9; --link: #0b5cad;
  --yes: #1a6b3c; --no: #57606a;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e8ec; --soft: #a2abb5; --line: #343b43; --paper: #14181c; --inset: #1c2127; --link: #7db8f5;
    --yes: #7fd1a0; --no: #a2abb5;
  }
}
* { box-sizing: border-box; }
html { text-size-adjust: 100%; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--text);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
a { color: var(--link); text-underline-offset: .18em; text-decoration-thickness: 1px; }
a:hover { text-decoration-thickness: 2px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: 1rem; top: -4rem; background: var(--paper); padding: .5rem .75rem; }
.skip:focus { top: .5rem; z-index: 1; }
header, main { max-width: 46rem; margin: 0 auto; padding: 0 1.25rem; }
header {
  display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; align-items: baseline; justify-content: space-between;
  padding-top: 1rem; padding-bottom: .875rem;
}
header > a { color: inherit; font-weight: 650; text-decoration: none; padding: .25rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: 0; padding: 0; }
main > nav { margin-top: 1rem; }
nav a { display: inline-block; padding: .25rem 0; }
header nav a { font-size: .9375rem; }
[aria-current] { color: inherit; text-decoration: none; }
.rule { border-top: 1px solid var(--line); }
main { padding-top: 2.25rem; padding-bottom: 5rem; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -.015em; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1875rem; line-height: 1.35; margin: 2.5rem 0 .5rem; scroll-margin-top: 1rem; }
p { margin: .5rem 0; max-width: 40rem; }
.lead { font-size: 1.125rem; line-height: 1.55; margin: .875rem 0 0; }
.soft { color: var(--soft); }
code, pre { font-family: var(--mono); font-size: .875em; }
code { overflow-wrap: anywhere; }
p code, li code, dd code { background: var(--inset); border-radius: 4px; padding: .1em .3em; }
pre {
  background: var(--inset); border: 1px solid var(--line); border-radius: 6px; line-height: 1.55;
  margin: .75rem 0; overflow-wrap: anywhere; padding: .875rem 1rem; white-space: pre-wrap;
}
pre code { font-size: inherit; }
.name { color: var(--soft); font-size: 1rem; margin: .5rem 0 0; }
.name code { background: none; padding: 0; }
.facts {
  display: grid; grid-template-columns: repeat(3, 1fr); border: 1px solid var(--line); border-radius: 6px;
  margin: 1.75rem 0 0;
}
.facts > div { padding: .75rem 1rem; }
.facts > div + div { border-left: 1px solid var(--line); }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; }
.facts dd { font-weight: 600; font-variant-numeric: tabular-nums; }
.yes { color: var(--yes); }
table { border-collapse: collapse; margin: .75rem 0 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .625rem 0; text-align: left; vertical-align: top; }
thead th { color: var(--soft); font-size: .875rem; font-weight: 500; padding: .25rem 0; }
tbody tr { scroll-margin-top: 1rem; }
tbody tr:target { background: var(--inset); }
tbody th { font-weight: 400; }
th:first-child { width: 4.5rem; }
tbody th:first-child { font-variant-numeric: tabular-nums; }
td p { margin: .125rem 0 0; }
.states { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.5rem; margin: .75rem 0 0; }
.states dt { color: inherit; font-size: 1rem; }
.links { list-style: none; margin: .75rem 0 0; padding: 0; }
.links li { border-top: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 1.5rem; padding: .5rem 0; }
.links li:last-child { border-bottom: 1px solid var(--line); }
.links > li > :first-child { flex: 0 0 12rem; }
.links code { background: none; line-height: 1.8286; padding: 0; }
.end { margin-top: 2.5rem; }
@media (max-width: 34rem) {
  h1 { font-size: 1.625rem; }
  main { padding-top: 1.5rem; }
  .facts { grid-template-columns: 1fr; }
  .facts > div { display: flex; justify-content: space-between; gap: 1rem; padding: .5rem 1rem; }
  .facts > div + div { border-left: 0; border-top: 1px solid var(--line); }
  .facts dd { text-align: right; }
  .states { grid-template-columns: 1fr; gap: 0; }
  .states dd { margin-bottom: .625rem; }
  .links > li > :first-child { flex-basis: 100%; }
  th:first-child { width: 3.25rem; }
}
`
