/** The pages for people, in a real browser: they keep WCAG, their policy and their origin. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Browser } from "../../fixtures/console/Browser.ts"
import { Gateway, memoryGateway } from "../../fixtures/http/HttpGateway.ts"

const paths = [
  "/",
  "/problems",
  "/problems/invalid_token",
  "/problems/uri_too_long"
]

const openPage = Effect.fnUntraced(function*(path: string) {
  const { open } = yield* Browser
  const { port } = yield* Gateway
  return yield* open(`http://127.0.0.1:${port}${path}`)
})

/** Every visible link of the page that leads to another origin. */
const foreignTargets = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLAnchorElement>("a[href]")]
      .filter((element) => element.checkVisibility())
      .map((element) => element.href)
      .filter((target) => new URL(target).origin !== location.origin)
  )

layer(Layer.merge(memoryGateway({ quiet: true }), Browser.layer), { excludeTestServices: true })("A page", (it) => {
  for (const path of paths) {
    it.effect(`keeps WCAG 2.2 AA, its policy and its origin, in light and dark, also on a phone: ${path}`, () =>
      Effect.gen(function*() {
        const { axe, expectClean, page } = yield* openPage(path)
        for (const colorScheme of ["light", "dark"] as const) {
          for (const width of [360, 1280]) {
            yield* Effect.promise(async () => {
              await page.emulateMedia({ colorScheme })
              await page.setViewportSize({ width, height: 800 })
              await axe()
              assert.deepStrictEqual(await foreignTargets(page), [])
              const scrolled = await page.evaluate(() => document.documentElement.scrollWidth)
              assert.isAtMost(scrolled, width, "nothing sticks out")
            })
          }
        }
        expectClean()
      }).pipe(Effect.scoped))
  }

  it.effect("leads a stranger from the front to what to do about a problem, with the keyboard alone", () =>
    Effect.gen(function*() {
      const { expectClean, page } = yield* openPage("/")
      const focused = () => page.evaluate(() => document.activeElement?.textContent)
      /** Follows the link, which `Tab` must reach. */
      const follow = async (name: string) => {
        for (let presses = 0; presses < 60 && await focused() !== name; presses++) await page.keyboard.press("Tab")
        assert.strictEqual(await focused(), name)
        const before = page.url()
        await Promise.all([page.waitForURL(({ href }) => href !== before), page.keyboard.press("Enter")])
        await page.waitForLoadState()
      }
      yield* Effect.promise(async () => {
        await follow("Skip to content")
        assert.strictEqual(new URL(page.url()).hash, "#content")
        await follow("/problems")
        await follow("Grant revoked")
        await page.getByRole("heading", { name: "What to do" }).waitFor()
        assert.strictEqual(new URL(page.url()).pathname, "/problems/grant_revoked")
        await follow("Missing credentials")
        await page.getByText("curl", { exact: false }).first().waitFor()
        await follow("Error codes")
        await page.getByRole("heading", { name: "Your credential" }).waitFor()
      })
      expectClean()
    }).pipe(Effect.scoped))
})

/** A library in Scalar asks by a call of eval whether it may use eval. The policy says no, and the library goes without. */
const refusedProbe = [/^policy violation: script-src blocks eval /]

/** The controls of Scalar that lead to services of its maker. */
const foreign = /share|generate sdk|open api client|ask ai|powered by|developer tools|configure|sign in|register/i

layer(Layer.merge(memoryGateway({ quiet: true }), Browser.layer), { excludeTestServices: true })("/docs", (it) => {
  const openDocs = Effect.gen(function*() {
    const tab = yield* openPage("/docs")
    yield* Effect.promise(() => tab.page.getByRole("heading", { name: "Read an operation" }).first().waitFor())
    return tab
  })

  it.effect("shows the endpoints and the form that tries one, and no control or link that leads to another company", () =>
    Effect.gen(function*() {
      const { expectClean, page } = yield* openDocs
      const assertOwn = async () => {
        for (const role of ["button", "link", "menuitem", "tab"] as const) {
          assert.deepStrictEqual(await page.getByRole(role, { name: foreign }).allTextContents(), [], role)
        }
        assert.deepStrictEqual(await foreignTargets(page), [])
      }
      yield* Effect.promise(async () => {
        assert.strictEqual(await page.getByRole("heading", { name: "Financial Agents Gateway" }).count(), 1)
        const visible = page.getByText(foreign).filter({ visible: true })
        assert.deepStrictEqual(await visible.allTextContents(), [])
        await assertOwn()
        await page.getByRole("button", { name: /Test Request.*get \/v1\/operations\)/ }).first().click()
        const send = page.getByRole("button", { name: /^Send get request|Send Request/i })
        await send.first().waitFor()
        await assertOwn()
      })
      expectClean(refusedProbe)
    }).pipe(Effect.scoped))

  it.effect("finds an endpoint by its search box, in a wide window and on a phone", () =>
    Effect.gen(function*() {
      const { expectClean, page } = yield* openDocs
      yield* Effect.promise(async () => {
        for (const width of [1280, 360]) {
          await page.setViewportSize({ width, height: 800 })
          // Scalar gives its button the role of the landmark.
          const box = page.getByRole("search")
          if (width < 1000) await page.getByRole("button", { name: "Open Menu" }).click()
          await box.click()
          await page.getByRole("combobox", { name: /search/i }).fill("changes")
          await page.getByRole("option", { name: /Follow all operations/ }).first().click()
          await page.waitForURL(({ hash }) => hash.endsWith("/v1/operations/changes"))
          await page.evaluate(() => location.hash = "")
        }
      })
      expectClean(refusedProbe)
    }).pipe(Effect.scoped))
})
