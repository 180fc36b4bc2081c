/** What the dialog of a confirmed action says of its result: that nothing changed only if the console's server said so. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { addOperation, ask } from "../../fixtures/console/ActionDialogs.ts"
import { ConsoleScene, unavailable } from "../../fixtures/console/ConsoleScene.ts"
import { OperatorOfScene } from "../../fixtures/console/Operator.ts"
import { idOf } from "../../fixtures/console/SceneOperations.ts"

layer(OperatorOfScene, { excludeTestServices: true })("The result of an action", ({ effect }) => {
  effect(
    "that the ledger refuses shows its reason, and keeps the dialog with what was written",
    () =>
      Effect.gen(function*() {
        const { expectClean, page } = yield* addOperation(107, "failover")
        yield* Effect.promise(async () => {
          const dialog = await ask(page, "Release")
          await dialog.getByLabel("Reason").fill("The bank has no record")
          await dialog.getByRole("button", { name: "Release for sending" }).click()
          await dialog.getByText("The ledger refused. Nothing changed.").waitFor()
          await dialog.getByText("no worker has examined it since").waitFor()
          assert.strictEqual(await dialog.getByLabel("Reason").inputValue(), "The bank has no record")
          await dialog.getByRole("button", { name: "Go back" }).click()
          await page.getByText("Refused", { exact: true }).waitFor()
        })
        expectClean([/status of 409/])
      })
  )

  effect("on an operation that moved on meanwhile is a refusal", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const { expectClean, page } = yield* addOperation(108)
      const dialog = yield* Effect.promise(() => ask(page, "Cancel operation"))
      const now = scene.details.get(idOf(108))!
      const operation = { ...now.operation, state: "submitting" as const, submission_uncertain: true, revision: 2 }
      scene.change({
        ...now,
        operation,
        history: [...now.history, { ...now.history[0]!, revision: 2, from: "accepted", to: "submitting" }]
      })
      yield* Effect.promise(async () => {
        await page.locator(".operation-head .badge", { hasText: "Submitting" }).waitFor()
        await dialog.getByLabel("Reason").fill("Not wanted any more")
        await dialog.getByRole("button", { name: "Cancel for ever" }).click()
        await dialog.getByText("The ledger refused. Nothing changed.").waitFor()
        await dialog.getByText("the page shows the operation as it is now").waitFor()
      })
      assert.strictEqual(scene.details.get(idOf(108))!.operation.state, "submitting")
      expectClean([/status of 409/])
    }))

  effect.each(
    [
      [201, 503, "the store does not answer", Effect.fail(unavailable), null],
      [202, 500, "the server fails", Effect.die(new Error("a defect")), null],
      [203, 502, "a proxy answers that the server is away", Effect.void, { body: "<h1>Bad Gateway</h1>" }],
      [204, 404, "a proxy answers with a code of its own", Effect.void, { json: { code: "no_route", detail: "None." } }]
    ] as const
  )(
    "is unknown after any answer but a refusal of the API: it says so, and cannot be confirmed again (%s: %s, %s)",
    ([number, status, , onPerform, answerOfProxy]) =>
      Effect.gen(function*() {
        const scene = yield* ConsoleScene
        const { expectClean, page } = yield* addOperation(number)
        scene.onPerform = onPerform
        yield* Effect.promise(async () => {
          await page.route("**/actions", async (route) => {
            const response = await route.fetch()
            await route.fulfill(answerOfProxy === null ? { response } : { status, ...answerOfProxy })
          })
          const dialog = await ask(page, "Cancel operation")
          await dialog.getByLabel("Reason").fill("Not wanted any more")
          await dialog.getByRole("button", { name: "Cancel for ever" }).click()
          await dialog.getByText("The result is unknown.").waitFor()
          assert.isTrue(await dialog.getByRole("button", { name: "Cancel for ever" }).isDisabled())
          await dialog.getByRole("button", { name: "Close and look" }).click()
          await dialog.waitFor({ state: "detached" })
          const state = answerOfProxy === null ? "Accepted" : "Cancelled"
          await page.locator(".operation-head .badge", { hasText: state }).waitFor()
        }).pipe(Effect.ensuring(Effect.sync(() => {
          scene.onPerform = Effect.void
        })))
        expectClean([new RegExp(`status of ${status}`)])
      })
  )
})
