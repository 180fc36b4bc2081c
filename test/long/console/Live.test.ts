/**
 * An operator at work: with the real console, worker, provider and PostgreSQL, each in a process of its own. The page is never
 * loaded again, unless a test says so.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { Browser } from "../../fixtures/console/Browser.ts"
import { LiveConsole } from "../../fixtures/console/LiveConsole.ts"

/**
 * A console, and an operator who opened its link. The page reads nothing by intervals, so all that changes on it comes from the
 * stream of changes.
 */
const signIn = Effect.gen(function*() {
  const console = yield* (yield* LiveConsole).start
  const tab = yield* (yield* Browser).open(console.link)
  yield* Effect.promise(async () => {
    await tab.page.addInitScript(() => Object.assign(globalThis, { setInterval: () => 0 }))
    // The link leads to the console by itself. Another navigation meanwhile would end this one.
    await tab.page.waitForURL(`${console.origin}/console`)
    await tab.page.goto(`${console.origin}/console`)
    await tab.page.locator(".connection-live").waitFor()
  })
  return { console, ...tab }
})

const search = async (page: Page, text: string) => {
  await page.getByRole("searchbox").fill(text)
  await page.getByRole("button", { name: "Search", exact: true }).click()
}

const shows = (page: Page, badge: string) => page.locator(".operation-head .badge", { hasText: badge }).waitFor()

const act = async (page: Page, button: string, confirm: string) => {
  await page.getByRole("group", { name: "Actions" }).getByRole("button", { name: button }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Reason").fill("The bank has no record of it")
  await dialog.getByRole("button", { name: confirm }).click()
  return dialog
}

/** A mark that a new load of the page would remove. */
const mark = (page: Page) => page.evaluate(() => void document.documentElement.setAttribute("data-loaded", "once"))
const isMarked = (page: Page) => page.evaluate(() => document.documentElement.getAttribute("data-loaded") === "once")

layer(Layer.merge(LiveConsole.layer, Browser.layer), { excludeTestServices: true })("An operator", ({ effect }) => {
  effect(
    "signs in by the link, finds an operation by key, reference and id, and follows it through its states",
    () =>
      Effect.gen(function*() {
        const { accept, work } = yield* LiveConsole
        const { axe, expectClean, page } = yield* signIn
        const id = yield* accept("invoice-1", { outcome: "succeeded", settle_after_ms: 500 })
        yield* Effect.promise(async () => {
          await mark(page)
          await search(page, "invoice-1")
          await page.waitForURL(`**/console/operations/${id}`)
          await shows(page, "Accepted")
        })
        yield* Effect.scoped(Effect.andThen(work, Effect.promise(() => shows(page, "Succeeded"))))
        yield* Effect.promise(async () => {
          const steps = await page.locator(".timeline .step .badge").allInnerTexts()
          assert.deepStrictEqual(steps, ["Accepted", "Submitting", "Submitted", "Succeeded"])
          const reference = await page.locator(".facts dt", { hasText: "Reference" }).locator("+ dd").innerText()
          for (const text of [reference, id]) {
            await page.getByRole("link", { name: "Overview" }).click()
            await page.getByRole("heading", { name: "Overview" }).waitFor()
            await search(page, text)
            await page.waitForURL(`**/console/operations/${id}`)
            await shows(page, "Succeeded")
          }
          assert.isTrue(await isMarked(page))
          await axe()
        })
        expectClean()
      })
  )

  effect(
    "holds an operation, and releases it, which was never sent: the provider then gets it",
    () =>
      Effect.gen(function*() {
        const { accept, work } = yield* LiveConsole
        const { expectClean, page } = yield* signIn
        const id = yield* accept("invoice-2")
        yield* Effect.promise(async () => {
          await search(page, id)
          await shows(page, "Accepted")
          await (await act(page, "Hold", "Hold operation")).waitFor({ state: "detached" })
          await shows(page, "Held")
          await (await act(page, "Release", "Release for sending")).waitFor({ state: "detached" })
          await page.locator(".operation-head .badge", { hasText: "Held" }).waitFor({ state: "detached" })
        })
        yield* Effect.scoped(Effect.andThen(work, Effect.promise(() => shows(page, "Succeeded"))))
        const records = yield* Effect.promise(() => page.locator(".records li p:first-child strong").allInnerTexts())
        assert.deepStrictEqual(records, ["Release", "Hold"])
        expectClean()
      })
  )

  effect("cancels an operation, and sees what another operator does", () =>
    Effect.gen(function*() {
      const { accept, command } = yield* LiveConsole
      const { expectClean, page } = yield* signIn
      const id = yield* accept("invoice-3")
      yield* Effect.promise(async () => {
        await search(page, "invoice-3")
        await shows(page, "Accepted")
      })
      yield* command("operations", "review", id)
      yield* Effect.promise(async () => {
        await shows(page, "Under review")
        await (await act(page, "Cancel operation", "Cancel for ever")).waitFor({ state: "detached" })
        await shows(page, "Cancelled")
        const evidence = await page.getByRole("region", { name: "Evidence of revision 2" }).innerText()
        assert.include(evidence, "olivia")
      })
      expectClean()
    }))

  effect("does all of it by the keyboard alone", () =>
    Effect.gen(function*() {
      const { accept } = yield* LiveConsole
      const { expectClean, page } = yield* signIn
      const id = yield* accept("invoice-4")
      const { keyboard } = page
      const pressUntil = async (name: string) => {
        for (let presses = 0; presses < 60; presses++) {
          await keyboard.press("Tab")
          const focused = await page.evaluate(() =>
            document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""
          )
          if (focused.startsWith(name)) return
        }
        assert.fail(`the Tab key never reaches ${name}`)
      }
      yield* Effect.promise(async () => {
        await keyboard.press("Tab")
        assert.strictEqual(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content")
        await pressUntil("Queues")
        await keyboard.press("Enter")
        await page.getByRole("heading", { name: "Queues" }).waitFor()
        await pressUntil("All operations")
        await keyboard.press("Enter")
        await page.locator(`a[href$="${id}"]`).waitFor()
        await pressUntil("payment")
        await keyboard.press("Enter")
        await shows(page, "Accepted")
        await pressUntil("Review")
        await keyboard.press("Enter")
        await page.getByRole("dialog").waitFor()
        // Eight presses are more than the dialog has places: none leads out of it.
        for (let presses = 0; presses < 8; presses++) {
          await keyboard.press("Tab")
          const inside = await page.evaluate(() =>
            document.activeElement === document.body || document.activeElement?.closest("dialog") !== null
          )
          assert.isTrue(inside)
        }
        await page.getByLabel("Reason").focus()
        await keyboard.type("By the keyboard")
        await pressUntil("Put under review")
        await keyboard.press("Enter")
        await shows(page, "Under review")
      })
      expectClean()
    }))

  effect(
    "loses the server, sees what was last known, and signs in again after it came back",
    () =>
      Effect.gen(function*() {
        const { accept, start } = yield* LiveConsole
        const { axe, console: first, expectClean, page } = yield* signIn
        const id = yield* accept("invoice-5")
        yield* Effect.promise(async () => {
          await search(page, "invoice-5")
          await shows(page, "Accepted")
        })
        yield* first.stop("SIGKILL")
        yield* Effect.promise(async () => {
          await page.getByText("Disconnected.", { exact: true }).waitFor()
          await page.getByText("What you see was read").waitFor()
          await shows(page, "Accepted")
          await axe()
        })
        const second = yield* start
        yield* Effect.promise(async () => {
          await page.getByRole("heading", { name: "Your session has ended" }).waitFor()
          await axe()
          await page.getByRole("button", { name: "Sign in" }).click()
          await page.getByRole("heading", { name: "Sign in" }).waitFor()
          await axe()
          await page.goto(second.link)
          await page.locator(".connection-live").waitFor()
          await search(page, id)
          await shows(page, "Accepted")
        })
        // The browser logs each request that found no server, and each that found no session.
        expectClean([
          /ERR_CONNECTION_REFUSED/,
          /ERR_INCOMPLETE_CHUNKED_ENCODING/,
          /ERR_EMPTY_RESPONSE/,
          /ERR_CONNECTION_RESET/,
          /status of 401/
        ])
      })
  )
})
