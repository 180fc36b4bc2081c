/**
 * A client gets a copy of the ledger, and sees each operation settle, although connections break, proxies fail and the gateway is
 * killed. It stops when access ends. The tests serve a gateway on PostgreSQL behind a proxy that fails.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type Client, createClient, type Operation } from "../../../src/client/FetchClient.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { faultyProxy, type ProxyFault, proxyFaults } from "../../fixtures/client/FaultyProxy.ts"
import { accept, drive, issue, newKey } from "../../fixtures/ledger/Ledger.ts"
import { killedGateway } from "../../fixtures/processes/KilledGateway.ts"

/** Every second request meets a fault, each kind in turn. */
const everySecond = () => {
  let requests = 0
  return (): ProxyFault => {
    requests++
    return requests % 2 === 0 ? "none" : proxyFaults[(requests >> 1) % proxyFaults.length]!
  }
}

/** Reads the change feed in several runs, as a program that is started again and again, until the copy is complete. */
const copyLedger = async (client: Client, isComplete: (copy: ReadonlyMap<string, Operation>) => boolean) => {
  const copy = new Map<string, Operation>()
  let after: string | null = null
  while (!isComplete(copy)) {
    let pages = 0
    for await (const { next_change_token, operations } of client.changes(after, { page_size: 5 })) {
      for (const operation of operations) {
        assert.isAtLeast(operation.revision, copy.get(operation.id)?.revision ?? 0, "a revision went back")
        copy.set(operation.id, operation)
      }
      after = next_change_token
      if (++pages === 3 || isComplete(copy)) break
    }
  }
  return copy
}

const statesOf = async (operations: AsyncIterable<Operation>) => {
  const states: Array<string> = []
  for await (const { state } of operations) states.push(state)
  return states
}

const codeOf = (error: unknown) => (error as { readonly code?: unknown }).code

const clientOf = (baseUrl: string, token: Redacted.Redacted<string>) =>
  createClient({ baseUrl, accessToken: Redacted.value(token), wait: 2 })

describe("The client on fetch", () => {
  it.live("copies the ledger and follows an operation through faults, while the gateway is killed and started again", () =>
    Effect.scoped(Effect.gen(function*() {
      const { port, services, start } = yield* killedGateway
      const gateway = yield* start
      yield* Effect.gen(function*() {
        const { access_token, identity } = yield* issue()
        const { url } = yield* faultyProxy(port, everySecond())
        const client = clientOf(url, access_token)
        const key = newKey()
        assert.isNull(yield* Effect.promise(() => client.findByKey(key)))
        const { operation } = yield* accept(identity, { key })
        assert.strictEqual((yield* Effect.promise(() => client.findByKey(key)))?.id, operation.id)
        const count = 12
        const copying = yield* Effect.forkChild(
          Effect.promise(() =>
            copyLedger(client, (copy) => copy.size === count && [...copy.values()].every(({ terminal }) => terminal))
          )
        )
        const following = yield* Effect.forkChild(Effect.promise(() => statesOf(client.follow(operation.id))))
        const settle = Effect.flatMap(
          accept(identity),
          (accepted) => drive(accepted.operation, ["submitting", "succeeded"])
        )
        const first = yield* Effect.replicateEffect(settle, 6)
        const submitting = yield* drive(operation, ["submitting", "indeterminate"])
        yield* gateway.kill
        const second = yield* Effect.replicateEffect(settle, 5)
        yield* start
        const last = yield* drive(submitting, ["failed"])
        const copy = yield* Fiber.join(copying)
        assert.deepStrictEqual(
          [...copy.values()].map(({ id, revision, state }) => [id, revision, state]).toSorted(),
          [...first, ...second, last].map(({ id, revision, state }) => [id, revision, state]).toSorted()
        )
        const states = yield* Fiber.join(following)
        assert.strictEqual(states.at(-1), "failed")
        const visited = ["accepted", "submitting", "indeterminate", "failed"]
        assert.deepStrictEqual(states, visited.filter((state) => states.includes(state)), "each state once, in order")
        assert.deepInclude(yield* Effect.promise(() => client.settled(operation.id)), {
          id: operation.id,
          state: "failed"
        })
      }).pipe(Effect.provide(services))
    })))

  it.live("stops with the problem when the grant, the client, the provider or the history of the ledger is no more", () =>
    Effect.scoped(Effect.gen(function*() {
      const { port, services, start } = yield* killedGateway
      yield* start
      yield* Effect.gen(function*() {
        const grants = yield* Grants
        const sql = yield* SqlClient.SqlClient
        const ends = {
          grant_revoked: ({ grant }) => grants.revoke(grant.grant_id),
          client_inactive: ({ grant }) => grants.setClientActive(grant.client_id, false),
          provider_disconnected: ({ grant }) => grants.setProviderConnected(grant.provider_connection_id, false)
        } satisfies Record<
          string,
          (issued: Effect.Success<ReturnType<typeof issue>>) => Effect.Effect<unknown, unknown>
        >
        const { url } = yield* faultyProxy(port, everySecond())
        const loseAccess = Effect.fnUntraced(
          function*([code, end]: readonly [string, (typeof ends)[keyof typeof ends]]) {
            const issued = yield* issue()
            const { operation } = yield* accept(issued.identity)
            const client = clientOf(url, issued.access_token)
            const [states, pages] = [client.follow(operation.id), client.changes()]
            const firsts = yield* Effect.promise(() => Promise.all([states.next(), pages.next()]))
            assert.deepStrictEqual(firsts.map(({ done }) => done), [false, false])
            const nexts = yield* Effect.forkChild(Effect.promise(() =>
              Promise.allSettled([
                statesOf(states),
                (async () => {
                  for await (const page of pages) assert.deepStrictEqual(page.operations, [])
                })(),
                client.settled(operation.id)
              ])
            ))
            yield* end(issued)
            const outcomes = yield* Fiber.join(nexts)
            assert.deepStrictEqual(
              outcomes.map((outcome) => outcome.status === "rejected" ? codeOf(outcome.reason) : outcome.value),
              [code, code, code]
            )
          }
        )
        yield* Effect.forEach(Object.entries(ends), loseAccess, { concurrency: "unbounded", discard: true })
        const { access_token, identity } = yield* issue()
        yield* accept(identity)
        const pages = clientOf(url, access_token).changes()
        yield* Effect.promise(() => pages.next())
        // As `hold --all` after a restore.
        yield* sql`UPDATE ledger_home SET history = gen_random_uuid()`
        const error = yield* Effect.promise(() =>
          (async () => {
            for await (const page of pages) assert.deepStrictEqual(page.operations, [])
          })().catch(codeOf)
        )
        assert.strictEqual(error, "change_token_expired")
      }).pipe(Effect.provide(services))
    })))
})
