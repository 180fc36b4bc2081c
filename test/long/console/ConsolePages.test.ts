/**
 * Every page, in both colour schemes and on a phone: it passes axe's rules for WCAG 2.2 AA, keeps the policy of its
 * server, asks no other origin, logs no error, and fits its screen.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Tab } from "../../fixtures/console/Browser.ts"
import { ConsoleScene } from "../../fixtures/console/ConsoleScene.ts"
import { Operator, OperatorOfScene } from "../../fixtures/console/Operator.ts"
import { idOf, termsOf } from "../../fixtures/console/SceneOperations.ts"

/** Each kind of page, and what is on it once it is complete. */
const pages = [
  ["the overview", "", ".plot .axes"],
  ["the held operations", "/queues/held", "table.operations"],
  ["the waiting operations", "/queues/waiting", "table.operations"],
  ["the reversed operations", "/queues/reversed", "table.operations"],
  ["the failed operations", "/queues/failed", "table.operations"],
  ["all operations", "/queues/all", "table.operations"],
  ["a filter without a match", "/queues/held?resource_owner=none", ".empty"],
  ["an indeterminate operation", `/operations/${idOf(1)}`, ".timeline"],
  ["a held operation", `/operations/${idOf(5)}`, ".timeline"],
  ["a waiting operation", `/operations/${idOf(7)}`, ".timeline"],
  ["a reversed operation", `/operations/${idOf(11)}`, ".timeline"],
  ["a failed operation", `/operations/${idOf(12)}`, ".timeline"],
  ["a search without a match", "/search?text=none", ".empty"],
  ["a search without a text", "/search", "main p"],
  ["an address without a page", "/nothing", ".notice"]
] as const

const screens = [
  { name: "light, desktop", scheme: "light", width: 1280 },
  { name: "dark, desktop", scheme: "dark", width: 1280 },
  { name: "light, phone", scheme: "light", width: 360 }
] as const

/** Shows the page on each screen, one after the other. */
const onEachScreen = async ({ page }: Tab, check: (screen: string) => Promise<void>) => {
  for (const { name, scheme, width } of screens) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.setViewportSize({ width, height: 800 })
    await check(name)
  }
}

layer(OperatorOfScene)("The console", ({ effect }) => {
  effect.each(pages)(
    "shows %s accessibly and cleanly, in light and dark, also on a phone",
    ([, address, complete]) =>
      Effect.gen(function*() {
        const tab = yield* (yield* Operator).open(address)
        yield* Effect.promise(async () => {
          await tab.page.locator(complete).first().waitFor()
          await onEachScreen(tab, async (screen) => {
            await tab.axe()
            const wide = await tab.page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
            assert.isAtMost(wide, 0, `${screen}: the page scrolls sideways`)
          })
        })
        tab.expectClean()
      })
  )

  effect(
    "shows an operation on one line, and the button for amounts in the head of the table",
    () =>
      Effect.gen(function*() {
        const { page } = yield* (yield* Operator).open("/search?text=acme-gmbh")
        yield* Effect.promise(async () => {
          await page.locator(".operations tbody tr").first().waitFor()
          const boxOf = async (selector: string) => (await page.locator(selector).first().boundingBox())!
          const [head, button] = [await boxOf(".operations thead"), await boxOf(".show-terms button")]
          assert.isTrue(button.y >= head.y && button.y + button.height <= head.y + head.height)
          const line = await page.evaluate(() => Number.parseFloat(getComputedStyle(document.body).lineHeight))
          for (const row of await page.locator(".operations tbody tr").all()) {
            assert.isBelow((await row.boundingBox())!.height, 2 * line)
          }
          assert.strictEqual(await page.getByText("Nothing is left to do").count(), 0)
        })
      })
  )

  effect(
    "shows terms and key of each operation of a payee whole, and offers to show no terms again",
    () =>
      Effect.gen(function*() {
        for (const width of [1280, 1440]) {
          const { page } = yield* (yield* Operator).open(`/search?text=${termsOf(3).payee}`, { width })
          yield* Effect.promise(async () => {
            const row = page.locator(".operations tbody tr").first()
            await row.getByText(termsOf(3).payee).waitFor()
            const cut = await row.locator(".cell-operation, .id, .cell-state").evaluateAll((cells) =>
              cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)
            )
            assert.deepStrictEqual(cut, [])
            assert.strictEqual(await row.locator(".id").innerText(), "invoice-2026-4703")
            assert.strictEqual(await page.getByRole("button", { name: /^Show amount/ }).count(), 0)
          })
        }
      })
  )

  effect("begins the next action of a row with its time", () =>
    Effect.gen(function*() {
      const { page } = yield* (yield* Operator).open("/queues/indeterminate")
      yield* Effect.promise(async () => {
        const next = page.locator(".operations tbody tr", { hasText: "invoice-2026-4702" }).locator(".cell-next")
        await next.getByText("A reconciler reads its status").waitFor()
        assert.match(await next.innerText(), /^in \d+ (min|s): A reconciler/)
      })
    }))

  effect("shows each label of a plot whole, and draws the interval that has begun", () =>
    Effect.gen(function*() {
      const { page } = yield* (yield* Operator).open("")
      const { cut, short } = yield* Effect.promise(async () => {
        await page.locator(".plot .axes").first().waitFor()
        return await page.evaluate(() => {
          const right = (element: Element) => element.getBoundingClientRect().right
          const plots = [...document.querySelectorAll(".plot svg")]
          return {
            cut: plots.flatMap((plot) =>
              [...plot.querySelectorAll(".axes text")].filter((text) => right(text) > right(plot)).map((text) =>
                text.textContent
              )
            ),
            short: plots.filter((plot) =>
              [...plot.querySelectorAll(".area, .line")].every((shape) => right(shape) < right(plot) - 10)
            ).length
          }
        })
      })
      assert.deepStrictEqual({ cut, short }, { cut: [], short: 0 })
    }))

  effect("asks for an action accessibly", () =>
    Effect.gen(function*() {
      const tab = yield* (yield* Operator).open(`/operations/${idOf(5)}`)
      yield* Effect.promise(async () => {
        await tab.page.getByRole("button", { name: "Release" }).click()
        await tab.page.getByRole("dialog").waitFor()
        await onEachScreen(tab, tab.axe)
        await tab.page.getByRole("button", { name: "Release for sending" }).click()
        await tab.page.getByText("Give a reason.").waitFor()
        await onEachScreen(tab, tab.axe)
      })
      tab.expectClean()
    }))

  effect("shows the values of a plot in a table, and by the arrow keys", () =>
    Effect.gen(function*() {
      const { axe, expectClean, page } = yield* (yield* Operator).open("")
      yield* Effect.promise(async () => {
        const plot = page.getByRole("slider", { name: "Unsettled operations by state: time" })
        await plot.focus()
        const now = await plot.getAttribute("aria-valuetext")
        await page.keyboard.press("ArrowLeft")
        await page.locator(".plot .cursor").waitFor({ state: "attached" })
        assert.notStrictEqual(await plot.getAttribute("aria-valuetext"), now)
        await page.locator("summary").first().click()
        await page.getByRole("region", { name: "Unsettled operations by state: values" }).waitFor()
        await axe()
      })
      expectClean()
    }))

  effect(
    "shows evidence as names and values, folds what is long, and copies all of it as JSON",
    () =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const detail = details.get(idOf(2))!
        const evidence = { answer: "x".repeat(500), request: { path: "/v2/payments", parts: [{ settled: null }] } }
        details.set(idOf(2), {
          ...detail,
          history: [...detail.history.slice(0, -1), { ...detail.history.at(-1)!, evidence }]
        })
        const { axe, expectClean, page } = yield* (yield* Operator).open(`/operations/${idOf(2)}`)
        yield* Effect.promise(async () => {
          const shown = page.getByRole("region", { name: "Evidence of revision 3" })
          await shown.getByText("/v2/payments").waitFor()
          assert.deepStrictEqual(await shown.locator("dt").allInnerTexts(), [
            "Answer",
            "Request",
            "Path",
            "Parts",
            "1",
            "Settled"
          ])
          const folded = shown.getByText("x".repeat(500), { exact: true })
          assert.isFalse(await folded.isVisible())
          await shown.locator("summary").click()
          assert.isTrue(await folded.isVisible())
          await page.evaluate(() => {
            navigator.clipboard.writeText = async (text) => document.body.setAttribute("data-copied", text)
          })
          await shown.getByRole("button", { name: "Copy as JSON" }).click()
          await shown.getByText("Copied").waitFor()
          const copied = await page.locator("body").getAttribute("data-copied")
          assert.deepStrictEqual(JSON.parse(copied!), evidence)
          await axe()
        })
        expectClean()
      })
  )

  effect("scrolls a list that is wider than the window, and not the page", () =>
    Effect.gen(function*() {
      const { page } = yield* (yield* Operator).open("/queues/all", { width: 900 })
      const wide = yield* Effect.promise(async () => {
        await page.locator(".operations tbody tr").first().waitFor()
        return await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      })
      assert.isAtMost(wide, 0)
    }))

  effect.each([1280, 1440])(
    "has no table that scrolls sideways at %i pixels, also with ids in place of names",
    (width) =>
      Effect.gen(function*() {
        const { page } = yield* (yield* Operator).open("", { width })
        const wide = yield* Effect.promise(async () => {
          await page.locator(".worker-name").first().waitFor()
          return await page.evaluate(() => {
            for (const name of document.querySelectorAll(".worker-name")) {
              name.textContent = "01a208b9-b94d-76af-85e8-a9941514847f"
            }
            return [...document.querySelectorAll(".scroll, .panel:has(table)")].filter((element) =>
              // A closed part keeps the width that it had before.
              element.checkVisibility() && element.scrollWidth > element.clientWidth
            ).map(({ ariaLabel, textContent }) => ariaLabel ?? textContent)
          })
        })
        assert.deepStrictEqual(wide, [])
      })
  )

  effect("has room for text of twice the size", () =>
    Effect.gen(function*() {
      const { page } = yield* (yield* Operator).open(`/operations/${idOf(1)}`, { width: 640 })
      const wide = yield* Effect.promise(async () => {
        await page.locator(".timeline").waitFor()
        return await page.evaluate(() => {
          document.documentElement.style.setProperty("font-size", "200%")
          return document.documentElement.scrollWidth - innerWidth
        })
      })
      assert.isAtMost(wide, 0)
    }))
})
