/** What the pages show when there is nothing to show, when reads take long, and when they fail. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { ConsoleScene } from "../../fixtures/console/ConsoleScene.ts"
import { Operator, OperatorOfScene } from "../../fixtures/console/Operator.ts"
import { idOf } from "../../fixtures/console/SceneOperations.ts"

/** Holds the answers of the overview until `release`. */
const holdOverview = async (page: Page) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route("**/console/api/overview*", async (route) => {
    await promise
    await route.continue()
  })
  return { release: resolve }
}

/** Makes worker-1 lost since some minutes, with one operation that it may have claimed, and removes the problems. */
const loseWorker = async (page: Page, minutes = 1) => {
  await page.route("**/console/api/overview*", async (route) => {
    const response = await route.fetch()
    const { workers, ...figures } = await response.json()
    const seen_at = new Date(Date.parse(figures.at) - minutes * 60_000).toISOString()
    await route.fulfill({
      response,
      json: { ...figures, problems: [], workers: [{ ...workers[0], seen_at }, ...workers.slice(1)] }
    })
  })
  await page.route("**/console/api/operations?*state=submitting*", async (route) => {
    const response = await route.fetch()
    const page = await response.json()
    const [first] = page.operations
    const of = (claimed_by: string, minutes: number) => ({
      ...first,
      operation: { ...first.operation, updated_at: new Date(Date.now() - minutes * 60_000).toISOString() },
      schedule: {
        ...first.schedule,
        claimed_by,
        return_reason: null,
        due_at: new Date(Date.now() + 40_000).toISOString()
      }
    })
    // A returned one, one of another worker, and one that was claimed after the worker was lost.
    const operations = [first, of("worker-2", 2), of("worker-1", 0), of("worker-1", 2)]
    await route.fulfill({ response, json: { operations, next: null } })
  })
}

/** Opens the overview again, while its data is not there yet. */
const openSlowly = Effect.fnUntraced(function*(reducedMotion: boolean) {
  const tab = yield* (yield* Operator).open("/search", { reducedMotion })
  const overview = yield* Effect.promise(() => holdOverview(tab.page))
  yield* Effect.promise(async () => {
    await tab.page.getByRole("link", { name: "Overview" }).click()
    await tab.page.locator(".skeleton").waitFor()
  })
  return { tab, overview }
})

const withScene = <A, E, R>(
  change: { readonly down?: boolean; readonly empty?: boolean },
  effect: Effect.Effect<A, E, R>
) =>
  Effect.gen(function*() {
    const scene = yield* ConsoleScene
    Object.assign(scene, change)
    return yield* Effect.ensuring(effect, Effect.sync(() => Object.assign(scene, { down: false, empty: false })))
  })

layer(OperatorOfScene)("The console", ({ effect }) => {
  effect(
    "says first what needs people and what they do, and leads to the operations that it counts",
    () =>
      Effect.gen(function*() {
        const { axe, expectClean, page } = yield* (yield* Operator).open("")
        yield* Effect.promise(async () => {
          const problems = page.getByRole("region", { name: "What needs you" }).getByRole("listitem")
          await problems.first().getByText("worker worker-2 is paused").waitFor()
          await problems.first().getByText("Check the base URL of the provider").waitFor()
          assert.isBelow(
            (await problems.first().boundingBox())!.y,
            (await page.getByRole("table").first().boundingBox())!.y
          )
          await problems.getByRole("link", { name: "1 operation is not sent" }).click()
          await page.locator(`a[href$="${idOf(7)}"]`).waitFor()
          assert.strictEqual(await page.locator(".operations tbody tr").count(), 1)
          await page.locator(".tabs a", { hasText: "Waiting2" }).waitFor()
          assert.strictEqual(await page.getByLabel("State").inputValue(), "accepted")
          await axe()
        })
        expectClean()
      })
  )

  effect(
    "shows what the grant of an operation has used of each budget, as bars with their text",
    () =>
      Effect.gen(function*() {
        const tab = yield* (yield* Operator).open(`/operations/${idOf(5)}`)
        yield* Effect.promise(async () => {
          const budgets = tab.page.getByRole("region", { name: "Budgets of the grant" })
          await budgets.getByText("resets in").waitFor()
          const meters = budgets.getByRole("meter")
          const told = await meters.evaluateAll((bars) =>
            bars.map((bar) => [
              document.getElementById(bar.getAttribute("aria-labelledby")!)!.textContent,
              bar.getAttribute("aria-valuenow"),
              bar.getAttribute("aria-valuetext"),
              Math.round(100 * bar.querySelector("rect")!.getBoundingClientRect().width / bar.clientWidth)
            ])
          )
          assert.deepStrictEqual(told, [
            ["EUR per day (Europe/Berlin), payment", "62.9", "12599.50 of 20000.00 EUR used", 63],
            ["EUR for the life of the grant", "100", "250000.00 of 250000.00 EUR used", 100]
          ])
          await tab.axe()
        })
        tab.expectClean()
      })
  )

  effect("says that nothing needs people", () =>
    Effect.gen(function*() {
      const tab = yield* (yield* Operator).open("/search")
      yield* Effect.promise(async () => {
        await tab.page.route("**/console/api/overview*", async (route) => {
          const response = await route.fetch()
          await route.fulfill({ response, json: { ...await response.json(), problems: [] } })
        })
        await tab.page.getByRole("link", { name: "Overview" }).click()
        await tab.page.getByRole("heading", { name: "Nothing needs you" }).waitFor()
        await tab.axe()
      })
      tab.expectClean()
    }))

  effect(
    "counts a lost worker as what needs people, with the operations that it may have claimed, and when the rescuer moves them",
    () =>
      Effect.gen(function*() {
        const { axe, expectClean, page } = yield* (yield* Operator).open("/search")
        yield* Effect.promise(async () => {
          await loseWorker(page)
          await page.getByRole("link", { name: "Overview" }).click()
          // The headline counts it.
          const told = page.getByRole("region", { name: "What needs you: 1", exact: true }).getByRole("listitem")
          await told.getByText("Worker worker-1 is lost. It may have claimed 1 operation").waitFor()
          await told.getByText(/come to Indeterminate (in \d+ s|now|\d+ s ago)\./).waitFor()
          await page.locator(".workers .gone").getByText("Lost").waitFor()
          await axe()
          await page.unrouteAll({ behavior: "wait" })
          await page.getByRole("link", { name: "worker-1", exact: true }).click()
          await page.waitForURL("**/queues/all?state=submitting&claimed_by=worker-1&order=oldest")
          // The form follows the address a moment later.
          const worker = await page.getByLabel("Worker").elementHandle()
          await page.waitForFunction((input) => (input as HTMLInputElement).value === "worker-1", worker)
        })
        expectClean()
      })
  )

  effect("counts the lost workers that it lists, and no other", () =>
    Effect.gen(function*() {
      for (const [minutes, count] of [[9, 1], [11, 0]] as const) {
        const { expectClean, page } = yield* (yield* Operator).open("/search")
        yield* Effect.promise(async () => {
          await loseWorker(page, minutes)
          await page.getByRole("link", { name: "Overview" }).click()
          const panel = page.locator("section", { has: page.getByRole("heading", { name: "Workers", exact: true }) })
          await panel.getByText(/\d seen in the last 30 s/).waitFor()
          assert.strictEqual(await panel.getByText(/, \d+ lost/).count(), count)
          assert.strictEqual(await panel.locator(".gone").count(), count)
          await page.unrouteAll({ behavior: "wait" })
        })
        expectClean()
      }
    }))

  effect(
    "says in the empty queue how many operations are submitting, and until when they may come",
    () =>
      Effect.gen(function*() {
        const { expectClean, page } = yield* (yield* Operator).open("/search")
        yield* Effect.promise(async () => {
          await loseWorker(page)
          await page.route(
            "**/console/api/operations?*queue=indeterminate*",
            (route) => route.fulfill({ json: { operations: [], next: null } })
          )
          await page.getByRole("link", { name: "Queues" }).click()
          await page.locator(".empty", { hasText: "3 operations submitting" }).waitFor()
          await page.getByText(/those of a worker that has ended come here (in \d+ s|now|\d+ s ago)\./).waitFor()
          await page.unrouteAll({ behavior: "wait" })
        })
        expectClean()
      })
  )

  effect(
    "counts the operations by state as the plot does, and what holds of some of them as the queues do, without empty columns",
    () =>
      Effect.gen(function*() {
        const { page } = yield* (yield* Operator).open("")
        yield* Effect.promise(async () => {
          const table = page.getByRole("region", { name: "Now, by provider" }).getByRole("table")
          const names = await table.getByRole("columnheader").allInnerTexts()
          assert.deepStrictEqual(names, [
            "Provider",
            "Accepted",
            "Submitting",
            "Submitted",
            "Indeterminate",
            "Held",
            "Unauthorized",
            "Under review"
          ])
          const all = table.getByRole("row", { name: "All" }).locator(".number")
          const counts = await all.evaluateAll((cells) => cells.map((cell) => cell.firstChild!.textContent))
          const legend = page.getByRole("region", { name: "Unsettled operations", exact: true }).locator(".legend b")
          assert.deepStrictEqual(counts.slice(0, 4), await legend.allInnerTexts())
          await page.getByRole("link", { name: "Queues" }).click()
          for (const [at, queue] of [[4, "Held"], [6, "Under review"], [3, "Indeterminate"]] as const) {
            await page.locator(".tabs a", { hasText: `${queue}${counts[at]}` }).waitFor()
          }
        })
      })
  )

  effect(
    "counts the failures of a day by provider and code, names those that were never sent, and leads to those of an outage",
    () =>
      Effect.gen(function*() {
        const { axe, expectClean, page } = yield* (yield* Operator).open("")
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "card-network: 4 operations failed unsent in the last 24 h" }).click()
          await page.waitForURL("**/queues/failed?provider=card-network&failure_code=provider_unreachable&order=oldest")
          const rows = page.locator(".operations tbody tr")
          await rows.first().getByText("could not be reached until it was too late to send").waitFor()
          assert.strictEqual(await rows.count(), 1)
          await page.locator(".tabs a", { hasText: "Failed47" }).waitFor()
          assert.strictEqual(await page.getByLabel("Code").inputValue(), "provider_unreachable")
          await axe()
          await page.getByRole("link", { name: "card-network provider_unreachable 4 unsent" }).waitFor()
          await page.getByRole("link", { name: "card-network insufficient_funds 31", exact: true }).click()
          await rows.first().getByText("insufficient_funds").waitFor()
        })
        expectClean()
      })
  )

  effect(
    "gives a worker without a WORKER_ID one short name, and says once how to name it",
    () =>
      Effect.gen(function*() {
        const { page } = yield* (yield* Operator).open("/search")
        yield* Effect.promise(async () => {
          await page.route("**/console/api/overview*", async (route) => {
            const response = await route.fetch()
            const figures = await response.json()
            const workers = figures.workers.map((worker: object, n: number) => ({
              ...worker,
              worker_id: null,
              process_id: `a953a42${n}-b94d-76af-85e8-a9941514847f`
            }))
            await route.fulfill({ response, json: { ...figures, workers } })
          })
          await page.getByRole("link", { name: "Overview" }).click()
          await page.getByRole("link", { name: "Process a953a420", exact: true }).waitFor()
          await page.getByRole("link", { name: "Process a953a421", exact: true }).waitFor()
          assert.strictEqual(await page.getByText("WORKER_ID").count(), 1)
          await page.unrouteAll({ behavior: "wait" })
        })
      })
  )

  effect("leads from an operation that waits to what its provider needs", () =>
    Effect.gen(function*() {
      const { page } = yield* (yield* Operator).open(`/operations/${idOf(7)}`)
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "What card-network needs" }).click()
        await page.getByRole("heading", { name: "What needs you" }).waitFor()
      })
    }))

  effect.each(
    [
      ["", "The ledger has no operation yet"],
      ["/queues/indeterminate", "No outcome is unknown"],
      ["/queues/held", "No operation is held"],
      ["/queues/all", "The ledger has no operation that matches"]
    ] as const
  )("says what it means that there is nothing at %s", ([address, text]) =>
    withScene(
      { empty: true },
      Effect.gen(function*() {
        const tab = yield* (yield* Operator).open(address)
        yield* Effect.promise(async () => {
          await tab.page.getByText(text).waitFor()
          await tab.axe()
        })
        tab.expectClean()
      })
    ))

  effect("says that there is no such operation, and offers to search for the text", () =>
    Effect.gen(function*() {
      const tab = yield* (yield* Operator).open(`/operations/${idOf(999)}`)
      yield* Effect.promise(async () => {
        await tab.page.getByRole("heading", { name: "No such operation" }).waitFor()
        await tab.page.getByRole("link", { name: "Search for it" }).click()
        await tab.page.getByText("Nothing found").waitFor()
      })
      tab.expectClean([/status of 404/])
    }))

  effect("shows a skeleton while it loads, and the data after it", () =>
    Effect.gen(function*() {
      const { overview, tab: { axe, expectClean, page } } = yield* openSlowly(false)
      yield* Effect.promise(async () => {
        assert.isAbove(await page.evaluate(() => document.getAnimations().length), 0)
        await axe()
        overview.release()
        await page.locator(".plot .axes").first().waitFor()
        assert.strictEqual(await page.locator(".skeleton").count(), 0)
      })
      expectClean()
    }))

  effect("moves nothing for people who asked for that", () =>
    Effect.gen(function*() {
      const { overview, tab } = yield* openSlowly(true)
      assert.strictEqual(yield* Effect.promise(() => tab.page.evaluate(() => document.getAnimations().length)), 0)
      overview.release()
    }))

  effect("says why a read failed, and reads again when it is asked to", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const tab = yield* withScene(
        { down: true },
        Effect.gen(function*() {
          const tab = yield* (yield* Operator).open("/queues/held")
          yield* Effect.promise(async () => {
            await tab.page.getByText("This could not be read.").waitFor()
            await tab.axe()
          })
          return tab
        })
      )
      assert.isFalse(scene.down)
      yield* Effect.promise(async () => {
        // Without the wait of a click for a button that stands still. The page reads by itself, too, if its stream of changes opens only now.
        await tab.page.getByRole("button", { name: "Try again" }).dispatchEvent("click", {}, { timeout: 2000 }).catch(
          () => {}
        )
        await tab.page.getByRole("table").waitFor()
        assert.strictEqual(await tab.page.getByText("This could not be read.").count(), 0)
      })
      tab.expectClean([/status of 503/])
    }))
})
