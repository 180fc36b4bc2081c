/** The host of examples/payments pays with the payments example, and asks at the terminal first. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { rent, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { createDatabase } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"

/** Runs the host. It gets the reply when it asks. Yields what it prints. */
const host = (url: string, token: string, reply: string) =>
  Effect.promise(async () => {
    const child = spawn(process.execPath, ["examples/payments/host.ts"], {
      env: { GATEWAY_URL: url, GATEWAY_TOKEN: token },
      stdio: ["pipe", "pipe", "inherit"]
    })
    let output = ""
    let isAsked = false
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      if (isAsked || !output.includes("Enter yes")) return
      isAsked = true
      child.stdin.write(`${reply}\n`)
    })
    await once(child, "close")
    return output
  })

describe("The host of examples/payments", () => {
  it.live("pays once its user has confirmed the payment, and asks no more for the same key", () =>
    Effect.gen(function*() {
      const { token, url } = yield* startPayments({
        DATABASE_URL: urlOf(yield* createDatabase()),
        BANK_URL: "http://127.0.0.1:9"
      })
      const declined = yield* host(url, token, "no")
      assert.include(declined, `Amount: "${rent.amount} EUR"`)
      assert.include(declined, "code: 'confirmation_declined'")
      const paid = yield* host(url, token, "yes")
      const [id] = /id: '[\w-]+'/.exec(paid)!
      const repeated = yield* host(url, token, "no")
      assert.notInclude(repeated, "Enter yes")
      assert.include(repeated, id)
    }).pipe(Effect.scoped))
})
