/**
 * The engine of the clients gives each state of an operation once, and waits or polls as the gateway allows. The client on `fetch` runs
 * it over scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { id, operation, read, type Reply, scripted, unchanged } from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"

const accepted = operation("accepted", 1)
const submitting = operation("submitting", 2)
const succeeded = operation("succeeded", 3)

/** The states that a client sees, and the requests it sends, until the operation is final. */
const followed = async (replies: ReadonlyArray<Reply>, options: { readonly wait?: number } = {}) => {
  await using scene = scriptedScene()
  const { fetch, received } = scripted(scene, replies)
  const client = scene.makeClient(fetch, options)
  const states = await scene.until((async () => {
    const seen: Array<string> = []
    for await (const { state } of client.follow(id)) seen.push(state)
    return seen
  })())
  return { states, received, pauses: received.slice(1).map(({ at }, n) => at - received[n]!.at) }
}

describe("The engine follows an operation", () => {
  it("and gives each entity tag once, until the operation is final", async () => {
    const { received, states } = await followed([
      read(accepted),
      unchanged(accepted, { applied: true, after: 50 }),
      read(submitting, { applied: true, after: 3 }),
      read(submitting, { applied: true, after: 3 }),
      read(succeeded, { applied: true, after: 2 })
    ])
    assert.deepStrictEqual(states, ["accepted", "submitting", "succeeded"])
    assert.deepStrictEqual(received.map(({ ifNoneMatch }) => ifNoneMatch), [null, "\"1\"", "\"1\"", "\"2\"", "\"2\""])
    assert.deepStrictEqual(new Set(received.map(({ target }) => target)), new Set([`/v1/operations/${id}`]))
  })

  it("asks for the wait after the first read, and reads again at once while the gateway waits", async () => {
    const { pauses, received } = await followed([
      read(accepted, { retryAfter: 1 }),
      unchanged(accepted, { applied: true, after: 50, retryAfter: 1 }),
      unchanged(accepted, { applied: true, after: 50, retryAfter: 1 }),
      read(succeeded)
    ])
    assert.deepStrictEqual(received.map(({ prefer }) => prefer), [null, "wait=50", "wait=50", "wait=50"])
    assert.deepStrictEqual(pauses, [0, 50, 50])
  })

  it("asks for the wait that the caller chose, and for none if it is 0", async () => {
    const replies = [read(accepted), read(succeeded, { after: 1 })]
    const chosen = await followed(replies, { wait: 20 })
    assert.deepStrictEqual(chosen.received.map(({ prefer }) => prefer), [null, "wait=20"])
    const none = await followed(replies, { wait: 0 })
    assert.deepStrictEqual(none.received.map(({ prefer }) => prefer), [null, null])
    assert.deepStrictEqual(none.pauses, [1.125])
  })

  const after4 = unchanged(accepted, { retryAfter: 4 })
  const waitedAtOnce = unchanged(accepted, { applied: true, retryAfter: 4 })

  // The clock of the tests moves in steps of an eighth of a second.
  it.each<[name: string, replies: ReadonlyArray<Reply>, pauses: ReadonlyArray<number>]>([
    [
      "polls as Retry-After says, with jitter, if the gateway does not wait",
      [read(accepted, { retryAfter: 4 }), after4, unchanged(accepted, { retryAfter: 8 }), unchanged(accepted)],
      [0, 4.5, 9, 1.125]
    ],
    [
      "polls if a gateway says that it waited, and answers at once without a change",
      [read(accepted), waitedAtOnce, waitedAtOnce],
      [0, 4.5, 4.5]
    ],
    [
      "reads at once again when the gateway waits again",
      [read(accepted), after4, unchanged(accepted, { applied: true, after: 50 })],
      [0, 4.5, 50]
    ]
  ])("%s", async (_, replies, pauses) => {
    const followedBy = await followed([...replies, read(succeeded)])
    assert.deepStrictEqual(followedBy.pauses, pauses)
    assert.isTrue(followedBy.received.slice(1).every(({ prefer }) => prefer === "wait=50"))
  })

  it("gives the final operation by `settled`", async () => {
    await using scene = scriptedScene()
    const { fetch } = scripted(scene, [
      read(accepted),
      unchanged(accepted, { applied: true, after: 50 }),
      read(succeeded)
    ])
    const client = scene.makeClient(fetch)
    assert.deepStrictEqual(await scene.until(client.settled(id)), succeeded)
  })

  it("leaves no request when the iteration is left, while a read waits and between reads", async () => {
    for (
      const waiting of [unchanged(accepted, { applied: true, after: 50 }), unchanged(accepted, { retryAfter: 9 })]
    ) {
      await using scene = scriptedScene()
      const { fetch, received, running } = scripted(scene, [read(accepted), waiting])
      const states = scene.makeClient(fetch).follow(id)
      assert.deepStrictEqual((await scene.until(states.next())).value, accepted)
      const next = states.next()
      await scene.until(scene.sleep(1))
      const sent = received.length
      await scene.until(states.return!())
      assert.strictEqual((await scene.until(next)).done, true)
      assert.strictEqual(running(), 0)
      await scene.until(scene.sleep(100))
      assert.lengthOf(received, sent)
    }
  })
})
