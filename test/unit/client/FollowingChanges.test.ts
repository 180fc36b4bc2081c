/**
 * The engine of the clients reads the change feed page by page, and skips none. The client on `fetch` runs it over scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Client, OperationChanges, ProblemError } from "../../../src/client/FetchClient.ts"
import { operation, page, problem, type Reply, scripted } from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"

const one = operation("accepted", 1)
const two = operation("succeeded", 2)
const revoked = problem("grant_revoked")

/** The pages until the feed fails, the failure, and the requests. */
const feed = async (replies: ReadonlyArray<Reply>, ...query: Parameters<Client["changes"]>) => {
  await using scene = scriptedScene()
  const { fetch, received, running } = scripted(scene, replies)
  const client = scene.makeClient(fetch)
  const pages: Array<OperationChanges> = []
  const [outcome] = await scene.until(Promise.allSettled([(async () => {
    for await (const found of client.changes(...query)) pages.push(found)
  })()]))
  assert.strictEqual(running(), 0)
  const parameters = received.map(({ target }) => [...new URL(target, "https://gateway.test").searchParams])
  return {
    pages: pages.map((
      { next_change_token, operations }
    ) => [operations.map(({ revision }) => revision), next_change_token]),
    failure: outcome.status === "rejected"
      ? outcome.reason as Pick<ProblemError, "code" | "status" | "retryable">
      : null,
    received,
    parameters,
    pauses: received.slice(1).map(({ at }, n) => at - received[n]!.at)
  }
}

describe("The engine reads the change feed", () => {
  it("page by page, and asks after the token of the page before, with the same filters", async () => {
    const { pages, parameters, received } = await feed(
      [page([one], "b", { has_more: true }), page([two], "c"), revoked],
      "a",
      { state: ["accepted", "succeeded"], type: "payment", page_size: 10 }
    )
    assert.deepStrictEqual(pages, [[[1], "b"], [[2], "c"]])
    const filters = [["page_size", "10"], ["state", "accepted"], ["state", "succeeded"], ["type", "payment"]]
    assert.deepStrictEqual(
      parameters.map((pairs) => pairs.toSorted()),
      ["a", "b", "c"].map((token) => [["after", token], ...filters])
    )
    assert.isTrue(received.every(({ prefer }) => prefer === "wait=50"))
  })

  it("from the first operation if it has no token", async () => {
    for (const token of [undefined, null]) {
      const { parameters } = await feed([page([one], "b"), revoked], token, {})
      assert.deepStrictEqual(parameters, [[], [["after", "b"]]])
    }
  })

  it("and gives an empty page if its token is new", async () => {
    const { pages } = await feed([
      page([], "b"),
      page([], "b", { applied: true, after: 50 }),
      page([], "c", { applied: true, after: 50 }),
      revoked
    ])
    assert.deepStrictEqual(pages, [[[], "b"], [[], "c"]])
  })

  it("at once while more changes are there or the gateway waits", async () => {
    const { pauses } = await feed([
      page([one], "b", { has_more: true }),
      page([], "c", { has_more: true }),
      page([two], "d"),
      page([], "d", { applied: true, after: 50 }),
      page([one], "e", { applied: true, after: 7 }),
      revoked
    ])
    assert.deepStrictEqual(pauses, [0, 0, 0, 50, 7])
  })

  it("every 5 seconds, with jitter, if the gateway does not wait, also if its token moves", async () => {
    const { pauses } = await feed([page([one], "b"), page([], "c"), page([two], "d"), page([], "e"), revoked])
    // The clock of the tests moves in steps of an eighth of a second.
    assert.deepStrictEqual(pauses, [0, 5.625, 5.625, 5.625])
  })

  it("until the token belongs to another history: it fails with change_token_expired", async () => {
    const { failure, received } = await feed([page([one], "b"), problem("change_token_expired")])
    assert.deepInclude(failure, { code: "change_token_expired", status: 410, retryable: false })
    assert.lengthOf(received, 2)
  })
})
