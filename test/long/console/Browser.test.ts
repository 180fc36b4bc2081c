/** The browser of the tests notices what a page should not do. A fixture that misses it would let each page pass. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Browser } from "../../fixtures/console/Browser.ts"
import { serving } from "../../fixtures/http/listening.ts"

const policy = "default-src 'none'; script-src 'self'; img-src data:; connect-src *"

/** Serves the script in a page. */
const serve = (script: string, body = "<main><h1>Page</h1></main>") =>
  serving((request, response) => {
    if (request.url === "/script.js") response.setHeader("content-type", "text/javascript").end(script)
    else if (request.url === "/") {
      response.setHeader("content-security-policy", policy).setHeader("content-type", "text/html").end(
        `<!doctype html><html lang="en"><title>Page</title><link rel="icon" href="data:,">${body}<script src="/script.js"></script></html>`
      )
    } else response.writeHead(404).end()
  })

const faultsOf = Effect.fnUntraced(function*(script: string) {
  const browser = yield* Browser
  const tab = yield* browser.open(yield* serve(`${script}; document.body.dataset.done = "yes"`))
  yield* Effect.promise(() => tab.page.waitForSelector("body[data-done]", { state: "attached" }))
  // The browser reports a fault by another way than the attribute.
  while (tab.faults.length === 0) {
    yield* Effect.promise(() => tab.page.evaluate(() => new Promise(requestAnimationFrame)))
  }
  return tab.faults.join("\n")
})

layer(Browser.layer)("The browser of the tests", (it) => {
  const { effect } = it

  effect(
    "finds nothing wrong with a correct page, not even while axe runs under its policy",
    () =>
      Effect.gen(function*() {
        const browser = yield* Browser
        const tab = yield* browser.open(yield* serve(""))
        yield* Effect.promise(() => tab.axe())
        tab.expectClean()
      })
  )

  effect.each(
    [
      ["a console error", "console.error('wrong')", /console error: wrong/],
      [
        "an error that the page does not catch",
        "setTimeout(() => { throw new Error('wrong') })",
        /page error: .*wrong/
      ],
      ["an inline style", "document.body.setAttribute('style', 'color: red')", /policy violation: style-src-attr/],
      ["a request to another origin", "fetch('http://localhost:9/').catch(() => {})", /another origin/],
      ["a request that fails", "fetch('/missing').catch(() => {})", /404/]
    ] as const
  )("notices %s", ([, script, expected]) => Effect.map(faultsOf(script), (faults) => assert.match(faults, expected)))

  effect("notices an image without a text", () =>
    Effect.gen(function*() {
      const browser = yield* Browser
      const tab = yield* browser.open(yield* serve("", "<main><h1>Page</h1><img src='data:,'></main>"))
      const failed = yield* Effect.promise(() => tab.axe().then(() => "passed", String))
      assert.match(failed, /image-alt/)
    }))
})
