/** Actions of operators: each is confirmed in a dialog, which says what it means. */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { Locator, Page } from "playwright-core"
import { addOperation, ask, pendingApproval } from "../../fixtures/console/ActionDialogs.ts"
import { ConsoleScene } from "../../fixtures/console/ConsoleScene.ts"
import { Operator, OperatorOfScene } from "../../fixtures/console/Operator.ts"
import { detailOf, idOf, termsOf, timedOut } from "../../fixtures/console/SceneOperations.ts"

const sha256OfTest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

/** The label or text of the element with the focus. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const element = document.activeElement
    return element?.getAttribute("aria-label") ?? element?.textContent ?? ""
  })

/** What the page says beside a field, by which the field is described. */
const errorOf = (field: Locator): Promise<string | undefined> =>
  field.evaluate((element) =>
    element.getAttribute("aria-invalid") === "true"
      ? document.getElementById(element.getAttribute("aria-describedby")!)?.innerText
      : undefined
  )

layer(OperatorOfScene, { excludeTestServices: true })("An action", ({ effect }) => {
  effect(
    "names operation and provider, says what it can cause, and begins at the safe button",
    () =>
      Effect.gen(function*() {
        const { expectClean, page } = yield* addOperation(101, "failover")
        yield* Effect.promise(async () => {
          const dialog = await ask(page, "Release")
          const text = await dialog.innerText()
          for (const part of [idOf(101), "first-bank", "pay a second time", "Ask first-bank first"]) {
            assert.include(text, part)
          }
          assert.strictEqual(await focused(page), "Go back")
        })
        expectClean()
      })
  )

  effect(
    "is not sent without a confirmation: Escape and the safe button return the focus to the button",
    () =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const { expectClean, page } = yield* addOperation(102)
        yield* Effect.promise(async () => {
          for (const leave of [() => page.keyboard.press("Escape"), () => page.keyboard.press("Enter")]) {
            const dialog = await ask(page, "Cancel operation")
            await leave()
            await dialog.waitFor({ state: "detached" })
            assert.strictEqual(await focused(page), "Cancel operation")
          }
        })
        assert.deepStrictEqual(details.get(idOf(102))!.actions, [])
        expectClean()
      })
  )

  effect("asks for a reason if it can cause a loss", () =>
    Effect.gen(function*() {
      const { page } = yield* addOperation(103)
      yield* Effect.promise(async () => {
        const dialog = await ask(page, "Hold")
        await dialog.getByRole("button", { name: "Hold operation" }).click()
        await dialog.getByText("Give a reason.").waitFor()
        assert.isTrue(await dialog.getByLabel("Reason").evaluate((field) => field === document.activeElement))
      })
    }))

  effect.each(
    [
      [104, "Hold", "Hold operation", "Held", "hold"],
      [105, "Cancel operation", "Cancel for ever", "Cancelled", "cancel"],
      [106, "Review", "Put under review", "Under review", "review"]
    ] as const
  )(
    "is recorded with the operator and the reason, and the page shows its result (%s: %s)",
    ([number, label, confirm, badge, action]) =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const { expectClean, page } = yield* addOperation(number)
        yield* Effect.promise(async () => {
          const dialog = await ask(page, label)
          await dialog.getByLabel("Reason").fill("Ticket 4711")
          await dialog.getByRole("button", { name: confirm }).click()
          await dialog.waitFor({ state: "detached" })
          await page.locator(".operation-head .badge", { hasText: badge }).waitFor()
          await page.getByRole("region", { name: "Actions of operators" }).getByText("Ticket 4711").waitFor()
          // The button may be gone, so the heading has the focus.
          assert.strictEqual(await focused(page), "payment")
        })
        const [record] = details.get(idOf(number))!.actions
        assert.deepInclude(record, {
          operator: "olivia",
          via: "console",
          action,
          reason: "Ticket 4711",
          result: "done"
        })
        expectClean()
      })
  )

  effect.each(
    [
      [108, "Approve", "Approve", /^Approved by olivia \(operator\).*The owner called$/s],
      [109, "Deny", "Deny for ever", /^Denied by olivia \(operator\).*The owner called$/s]
    ] as const
  )(
    "that decides about an operation is recorded; an approval only of an amount that was shown (%s: %s)",
    ([number, label, confirm, shown]) =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const { expectClean, page } = yield* addOperation(number, "approval")
        yield* Effect.promise(async () => {
          const dialog = await ask(page, label)
          await dialog.getByLabel("Reason").fill("The owner called")
          const button = dialog.getByRole("button", { name: confirm, exact: true })
          assert.strictEqual(await button.isDisabled(), label === "Approve")
          await dialog.getByRole("button", { name: "Show amount and payee" }).click()
          await button.click()
          await dialog.waitFor({ state: "detached" })
          await page.getByRole("region", { name: "Facts" }).getByRole("definition").filter({ hasText: shown }).waitFor()
        })
        const [record] = details.get(idOf(number))!.actions
        assert.deepInclude(record, { operator: "olivia", action: label.toLowerCase(), reason: "The owner called" })
        expectClean()
      })
  )

  effect(
    "that holds an operation is offered after a failover, too, while its approval is pending",
    () =>
      Effect.gen(function*() {
        const { page } = yield* addOperation(111, "failover", pendingApproval)
        yield* Effect.promise(async () => {
          await (await ask(page, "Hold")).getByText("Only a release ends this hold.").waitFor()
        })
      })
  )

  effect(
    "approves nothing whose amount and payee the server cannot read; it may be denied",
    () =>
      Effect.gen(function*() {
        const scene = yield* ConsoleScene
        const { page } = yield* addOperation(110, "approval")
        scene.unreadable = true
        yield* Effect.promise(async () => {
          const dialog = await ask(page, "Approve")
          await dialog.getByRole("button", { name: "Show amount and payee" }).click()
          await dialog.getByText("lacks the key of the amount and the payee").waitFor()
          assert.isTrue(await dialog.getByRole("button", { name: "Approve", exact: true }).isDisabled())
          await dialog.getByRole("button", { name: "Go back" }).click()
          assert.isFalse(
            await (await ask(page, "Deny")).getByRole("button", { name: "Deny for ever" }).isDisabled()
          )
        }).pipe(Effect.ensuring(Effect.sync(() => {
          scene.unreadable = false
        })))
      })
  )

  effect(
    "that records an outcome chooses none by itself, takes the answer of the provider, and repeats all of it before the second confirmation",
    () =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const question = "Did you receive a payment with the key invoice-2026-4703?"
        const before = details.get(idOf(3))!
        details.set(idOf(3), { ...before, last_read: { ...before.last_read!, question } })
        const { expectClean, page } = yield* (yield* Operator).open(`/operations/${idOf(3)}`)
        yield* Effect.promise(async () => {
          const dialog = await ask(page, "Record outcome")
          // It begins at its title, and not at its end, where the buttons are.
          assert.strictEqual(await focused(page), "Record the outcome of this operation?")
          assert.strictEqual(await dialog.getByLabel("Outcome").inputValue(), "")
          assert.strictEqual(await dialog.getByLabel("What did you ask?").inputValue(), question)
          // The present time would date an earlier answer.
          assert.strictEqual(await dialog.getByLabel("When did you ask?").inputValue(), "")
          await dialog.getByText(String(timedOut["reason"])).waitFor()
          await dialog.getByText("Status read 5").waitFor()
          await dialog.getByRole("button", { name: "Check and confirm" }).click()
          assert.isTrue(await dialog.getByLabel("Outcome").evaluate((field) => field === document.activeElement))
          assert.strictEqual(
            await errorOf(dialog.getByLabel("Whom did you ask?")),
            "Fill in: Whom did you ask?"
          )
          assert.strictEqual(await errorOf(dialog.getByLabel("Outcome")), "Choose the outcome.")
          assert.strictEqual(
            await errorOf(dialog.getByLabel("Answer in words")),
            "Give the answer, or a document."
          )
          await dialog.getByLabel("Outcome").selectOption("failed")
          await dialog.getByRole("button", { name: "Check and confirm" }).click()
          assert.isTrue(await dialog.getByLabel("Failure code").evaluate((field) => field === document.activeElement))
          const texts = {
            "Failure code": "never_received",
            "Failure message": "The bank has no such payment.",
            "What did you ask?": "Did you receive it?",
            "Whom did you ask?": "Payments office",
            "When did you ask?": "2000-05-02T09:30",
            "Reference": "Case 4711",
            "Link to": "https://cases.bank.example/4711",
            "Reason": "ticket 12"
          }
          for (const [label, text] of Object.entries(texts)) await dialog.getByLabel(label).first().fill(text)
          await dialog.getByLabel("The reference is that of the answer").check()
          await dialog.getByLabel("Take it from a document").setInputFiles({
            name: "letter.txt",
            mimeType: "text/plain",
            buffer: Buffer.from("test")
          })
          const created = DateTime.formatIso(details.get(idOf(3))!.operation.created_at)
          await dialog.getByRole("button", { name: "Check and confirm" }).click()
          assert.strictEqual(
            await errorOf(dialog.getByLabel("When did you ask?")),
            `asked_at 2000-05-02T09:30:00.000Z is before the creation of the operation at ${created}`
          )
          // The field has the time zone of the browser: UTC.
          await dialog.getByLabel("When did you ask?").fill(created.slice(0, 19))
          await dialog.getByRole("button", { name: "Check and confirm" }).click()
          await dialog.getByText("Record it as failed for ever?").waitFor()
          await dialog.getByRole("button", { name: "Show amount and payee" }).click()
          await dialog.getByText(termsOf(3).payee).waitFor()
          const shown = await dialog.innerText()
          for (const part of [idOf(3), "first-bank", "hafen-logistik", "never_received", "Case 4711", sha256OfTest]) {
            assert.include(shown, part)
          }
          assert.strictEqual(details.get(idOf(3))!.operation.state, "indeterminate")
          await dialog.getByRole("button", { name: "Record as failed" }).click()
          await dialog.waitFor({ state: "detached" })
          await page.locator(".operation-head .badge", { hasText: "Failed" }).waitFor()
        })
        const { actions, history, operation } = details.get(idOf(3))!
        assert.deepStrictEqual(operation.failure, {
          code: "never_received",
          message: "The bank has no such payment."
        })
        assert.deepInclude(history.at(-1)!.evidence, {
          document_sha256: sha256OfTest,
          link: "https://cases.bank.example/4711",
          reference: "Case 4711",
          reference_of: "answer"
        })
        assert.deepInclude(actions.at(-1), {
          action: "advance",
          operator: "olivia",
          reason: "ticket 12",
          result: "done"
        })
        expectClean()
      })
  )

  effect.each(
    [
      ["may be under way", 3_600_000, 0, "a fence may be under way until"],
      ["ended after the question", -120_000, 180_000, "Cancel the order that waits under this key"]
    ] as const
  )(
    "that records a failure is refused in the words of the ledger if a fence %s",
    ([, ends, before, words]) =>
      Effect.gen(function*() {
        const { details } = yield* ConsoleScene
        const now = Date.now()
        const fencing_until = new Date(now + ends).toISOString()
        details.set(
          idOf(110),
          detailOf(now, {
            number: 110,
            state: "indeterminate",
            age: 60,
            schedule: { fence_started_at: fencing_until, fencing_until },
            next: { by: "reconciler", action: "A reconciler repeats the fence.", at: null, reason: "A fence began." },
            history: [["accepted", 60, null], ["submitting", 60, null], ["indeterminate", 60, { reason: "no answer" }]]
          })
        )
        const { expectClean, page } = yield* (yield* Operator).open(`/operations/${idOf(110)}`)
        yield* Effect.promise(async () => {
          const dialog = await ask(page, "Record outcome")
          const asked = dialog.getByLabel("When did you ask?")
          assert.strictEqual(await asked.inputValue(), "", "after a fence a person gives the time")
          const errorAt = async (instant: number) => {
            await asked.fill(new Date(instant).toISOString().slice(0, 19))
            await dialog.getByRole("button", { name: "Check and confirm" }).click()
            return await errorOf(asked)
          }
          await dialog.getByLabel("Outcome").selectOption("failed")
          const error = await errorAt(now - before)
          assert.include(error, words)
          assert.include(error, fencing_until)
          if (ends < 0) assert.isUndefined(await errorAt(now))
          expectClean()
        })
      })
  )
})
