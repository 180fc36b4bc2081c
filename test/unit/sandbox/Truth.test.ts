/**
 * Under all faults, the sandbox never shows a final status other than the true one. The test combines every fault over
 * 60 keys.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { FaultSettings } from "../../../src/sandbox/Faults.ts"
import { read, start, submit } from "../../fixtures/sandbox/SandboxHarness.ts"

const everything: FaultSettings = {
  refuse_connection: { rate: 0.1 },
  drop_response: { rate: 0.1 },
  bad_gateway: { rate: 0.1 },
  reset_mid_body: { rate: 0.1 },
  garbage_body: { rate: 0.1 },
  wrong_content_type: { rate: 0.1 },
  not_found_for: { rate: 0.3, ms: 1500 },
  duplicate_key_rejected: { rate: 0.5 },
  flapping_status: { rate: 0.5, reads: 6 },
  foreign_answer: { rate: 0.1 },
  lose: { rate: 0.1 }
}

const keys = Array.from({ length: 60 }, (_, n) => `key-${n}`)

/** The final status in an answer, if the answer is about this key. */
const finalOf = (key: string, json: unknown): string | undefined => {
  const { idempotency_key, status } = (json ?? {}) as { readonly idempotency_key?: string; readonly status?: string }
  if (idempotency_key !== key) return undefined
  return status === "succeeded" || status === "failed" ? status : undefined
}

describe("The truth", () => {
  it.effect("is the only final status that a client sees under any fault", () =>
    Effect.gen(function*() {
      const { setFaults, truth, url } = yield* start({ faults: everything, seed: "truth" })
      const finals = new Map(keys.map((key) => [key, new Set<string>()]))
      const see = (key: string, json: unknown) => {
        const final = finalOf(key, json)
        if (final !== undefined) finals.get(key)?.add(final)
      }
      for (const key of [...keys, ...keys.slice(0, 20)]) {
        const { json, status } = yield* submit(url, key)
        see(key, status === 422 ? { ...json as object, status: "failed" } : json)
      }
      for (let round = 0; round < 10; round++) {
        for (const key of keys) see(key, (yield* read(url, key)).json)
        yield* TestClock.adjust(500)
      }
      const wire = new Set<string>()
      yield* setFaults({})
      for (const key of keys) {
        const { final, receipts, status } = yield* truth(key)
        const end = yield* read(url, key)
        see(key, end.json)
        const seen = [...finals.get(key)!]
        assert.isTrue(final || receipts === 0, key)
        // A submission refused by rule reads as failed. One that was lost, late or never arrived reads as 404.
        if (status === "absent") assert.deepStrictEqual([seen, end.status], [[], 404])
        else if (status !== "refused") assert.deepStrictEqual(seen, [status])
        else assert.deepStrictEqual(seen, end.status === 404 ? [] : ["failed"])
        wire.add(status)
      }
      // With this seed, each kind of end occurred.
      assert.sameMembers([...wire], ["absent", "refused", "succeeded", "failed"])
    }))
})
