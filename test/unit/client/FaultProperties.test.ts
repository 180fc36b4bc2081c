/**
 * Failures between the answers change nothing of what the engine of the clients gives. Properties hold it over scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  cut,
  id,
  lost,
  operation,
  page,
  problem,
  read,
  type Reply,
  scripted,
  text,
  unchanged
} from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"

const failure = fc.constantFrom(
  lost,
  cut(),
  cut(503),
  text(502, "Bad gateway"),
  text(503, "Busy", { "retry-after": "2" }),
  problem("service_unavailable"),
  problem("rate_limited", { "retry-after": "3" })
)

const failures = fc.array(failure, { maxLength: 3 })

const stateNames = ["accepted", "submitting", "submitted", "indeterminate"] as const

const final = operation("succeeded", 9)

/** Reads of an operation that moves on or stays as it is, with failures before each, and the states in order. */
const history = fc.array(fc.record({ failures, stays: fc.boolean(), applied: fc.boolean() }), { maxLength: 4 }).map(
  (steps) => {
    const replies: Array<Reply> = []
    const states: Array<string> = []
    for (const { applied, failures, stays } of steps) {
      const known = states.length - 1
      replies.push(...failures)
      if (stays && known >= 0) replies.push(unchanged(operation(stateNames[known]!, known + 1), { applied, after: 2 }))
      else {
        const state = stateNames[known + 1]!
        states.push(state)
        replies.push(read(operation(state, known + 2), { applied }))
      }
    }
    return { replies: [...replies, read(final)], states: [...states, "succeeded"] }
  }
)

const pages = fc.array(fc.record({ failures, size: fc.nat(3), has_more: fc.boolean() }), { maxLength: 5 })

describe("In spite of failures, the engine", () => {
  it("gives each state once and in order, with any failures in between", async () => {
    await fc.assert(
      fc.asyncProperty(history, async ({ replies, states }) => {
        await using scene = scriptedScene()
        const { fetch, running } = scripted(scene, replies)
        const client = scene.makeClient(fetch)
        const seen: Array<string> = []
        await scene.until((async () => {
          for await (const { state } of client.follow(id)) seen.push(state)
        })())
        assert.deepStrictEqual(seen, states)
        assert.strictEqual(running(), 0)
      }),
      { numRuns: 30 }
    )
  })

  it("gives each page once and in order, and asks after each token until it is answered", async () => {
    await fc.assert(
      fc.asyncProperty(pages, async (steps) => {
        await using scene = scriptedScene()
        const replies = steps.flatMap(({ failures, has_more, size }, n) => [
          ...failures,
          page(Array.from({ length: size }, (_, m) => operation("accepted", m + 1)), `t${n}`, { has_more })
        ])
        const { fetch, received } = scripted(scene, [...replies, problem("grant_revoked")])
        const client = scene.makeClient(fetch)
        const seen: Array<readonly [number, string]> = []
        await scene.until(Promise.allSettled([(async () => {
          for await (const { next_change_token, operations } of client.changes()) {
            seen.push([operations.length, next_change_token])
          }
        })()]))
        assert.deepStrictEqual(seen, steps.map(({ size }, n) => [size, `t${n}`]))
        const asked = steps.flatMap(({ failures }, n) =>
          Array<string | null>(failures.length + 1).fill(n === 0 ? null : `t${n - 1}`)
        )
        assert.deepStrictEqual(
          received.map(({ target }) => new URL(target, "https://gateway.test").searchParams.get("after")),
          [...asked, steps.length === 0 ? null : `t${steps.length - 1}`]
        )
      }),
      { numRuns: 30 }
    )
  })
})
