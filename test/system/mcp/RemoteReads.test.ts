/**
 * The reads of the stdio server against a served gateway on PostgreSQL: each read, what ends it, and a restart of the gateway.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import * as http from "node:http"
import type { AddressInfo } from "node:net"
import { ChangeToken } from "../../../src/domain/ChangeFeed.ts"
import { type Operation, OperationId, OperationType } from "../../../src/domain/Operation.ts"
import { AgentReads, type ReadRefused } from "../../../src/mcp/AgentReads.ts"
import * as RemoteReads from "../../../src/mcp/RemoteReads.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { faultyProxy, type ProxyFault } from "../../fixtures/client/FaultyProxy.ts"
import { accept, drive, issue, newKey } from "../../fixtures/ledger/Ledger.ts"
import { freePort } from "../../fixtures/processes/CommandLine.ts"
import { killedGateway } from "../../fixtures/processes/KilledGateway.ts"

/** Reads with a token. They bridge failures for longer than any start of a gateway takes. */
const readsAt = (url: string, accessToken: Redacted.Redacted<string>, patience = 60) =>
  Effect.map(
    Layer.build(
      RemoteReads.layer({ baseUrl: url, accessToken, patience }).pipe(Layer.provide(FetchHttpClient.layer))
    ),
    (context) => AgentReads.pipe(Effect.provideContext(context))
  ).pipe(Effect.flatten)

const codeOf = <A>(read: Effect.Effect<A, ReadRefused>) => Effect.map(Effect.flip(read), ({ code }) => code)

const idsOf = (operations: ReadonlyArray<Operation>) => operations.map(({ id }) => id)

describe("RemoteReads", () => {
  it.live("reads pages, one operation, its next state and the changes, of its grant alone", () =>
    Effect.scoped(Effect.gen(function*() {
      const { services, start, url } = yield* killedGateway
      yield* start
      yield* Effect.gen(function*() {
        const { access_token, identity } = yield* issue()
        const other = yield* issue()
        const foreign = yield* accept(other.identity)
        const reads = yield* readsAt(url, access_token)
        const key = newKey()
        const [first, second] = [
          (yield* accept(identity, { key })).operation,
          (yield* accept(identity)).operation
        ] as const

        const page = yield* reads.list({ page_size: 1 })
        assert.deepStrictEqual(idsOf(page.operations), [second.id])
        const rest = yield* reads.list({ page_size: 1, page_token: page.next_page_token! })
        assert.deepStrictEqual([idsOf(rest.operations), rest.next_page_token], [[first.id], null])
        assert.deepStrictEqual(idsOf((yield* reads.list({ idempotency_key: key })).operations), [first.id])
        assert.deepStrictEqual((yield* reads.list({ type: OperationType.make("refund") })).operations, [])

        const known = yield* reads.get(first.id)
        assert.deepStrictEqual(known, page.next_page_token === null ? null : rest.operations[0])
        assert.strictEqual(yield* codeOf(reads.get(foreign.operation.id)), "operation_not_found")
        const unknown = OperationId.make("01900000-0000-7000-8000-000000000000")
        assert.strictEqual(yield* codeOf(reads.get(unknown)), "operation_not_found")

        assert.deepStrictEqual(yield* reads.next(known, 1), known, "no change within the second")
        const feed = yield* reads.changes({})
        assert.deepStrictEqual(idsOf(feed.operations).toSorted(), [first.id, second.id].toSorted())
        const after = ChangeToken.make(feed.next_change_token)
        const waiting = yield* Effect.forkChild(reads.next(known, 60))
        const moved = yield* drive(first, ["submitting"])
        assert.deepInclude(yield* Fiber.join(waiting), { id: first.id, revision: moved.revision, state: "submitting" })
        assert.deepStrictEqual(idsOf((yield* reads.changes({ after })).operations), [first.id])
        assert.deepStrictEqual(yield* reads.next(known, 60), yield* reads.get(first.id), "it differs already")
      }).pipe(Effect.provide(services))
    })))

  it.live("is refused with the code of the gateway once access has ended, also while it waits", () =>
    Effect.scoped(Effect.gen(function*() {
      const { services, start, url } = yield* killedGateway
      yield* start
      yield* Effect.gen(function*() {
        const grants = yield* Grants
        const ends = {
          grant_revoked: ({ grant }) => grants.revoke(grant.grant_id),
          client_inactive: ({ grant }) => grants.setClientActive(grant.client_id, false),
          provider_disconnected: ({ grant }) => grants.setProviderConnected(grant.provider_connection_id, false)
        } satisfies Record<
          string,
          (issued: Effect.Success<ReturnType<typeof issue>>) => Effect.Effect<unknown, unknown>
        >
        for (const [code, end] of Object.entries(ends)) {
          const issued = yield* issue()
          const { operation } = yield* accept(issued.identity)
          const reads = yield* readsAt(url, issued.access_token)
          const known = yield* reads.get(operation.id)
          const waiting = yield* Effect.forkChild(codeOf(reads.next(known, 60)))
          yield* end(issued)
          const codes = [
            yield* Fiber.join(waiting),
            yield* codeOf(reads.list({})),
            yield* codeOf(reads.get(operation.id)),
            yield* codeOf(reads.changes({}))
          ]
          assert.deepStrictEqual(codes, Array(4).fill(code))
        }
        const reads = yield* readsAt(url, Redacted.make("unknown-token"))
        assert.strictEqual(yield* codeOf(reads.list({})), "invalid_token")
        const { access_token } = yield* issue()
        const held = yield* readsAt(url, access_token)
        const { next_change_token } = yield* held.changes({})
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE ledger_home SET history = gen_random_uuid()`
        const after = ChangeToken.make(next_change_token)
        assert.strictEqual(yield* codeOf(held.changes({ after })), "change_token_expired")
      }).pipe(Effect.provide(services))
    })))

  it.live("bridges a restart of the gateway, and failures of a proxy, during reads that wait", () =>
    Effect.scoped(Effect.gen(function*() {
      const { port, services, start } = yield* killedGateway
      const gateway = yield* start
      yield* Effect.gen(function*() {
        const { access_token, identity } = yield* issue()
        const faults: ReadonlyArray<ProxyFault> = ["refused", "none", "lost", "cut", "none", "late", "busy"]
        let requests = 0
        const { url } = yield* faultyProxy(port, () => faults[requests++ % faults.length]!)
        const reads = yield* readsAt(url, access_token)
        const { operation } = yield* accept(identity)
        const known = yield* reads.get(operation.id)
        const waiting = yield* Effect.forkChild(reads.next(known, 60))
        yield* gateway.kill
        yield* drive(operation, ["submitting"])
        yield* start
        assert.deepInclude(yield* Fiber.join(waiting), { state: "submitting" })
      }).pipe(Effect.provide(services))
    })))

  it.live("says that a gateway is unreachable, and that an address answers with something else", () =>
    Effect.scoped(Effect.gen(function*() {
      const token = Redacted.make("secret-token")
      const nowhere = yield* readsAt(`http://127.0.0.1:${yield* freePort}`, token, 0.1)
      assert.strictEqual(yield* codeOf(nowhere.list({})), "gateway_unreachable")
      const seen: Array<string | undefined> = []
      const listen = (handler: http.RequestListener) =>
        Effect.acquireRelease(
          Effect.promise(async () => {
            const server = http.createServer(handler).listen(0, "127.0.0.1")
            await once(server, "listening")
            return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
          }),
          ({ server }) =>
            Effect.sync(() => {
              server.close()
              server.closeAllConnections()
            })
        ).pipe(Effect.map(({ url }) => url))
      const target = yield* listen((request, response) => {
        seen.push(request.url)
        response.writeHead(200, { "content-type": "application/json" }).end(
          "{\"operations\":[],\"next_page_token\":null}"
        )
      })
      const redirecting = yield* listen((request, response) =>
        response.writeHead(307, { location: `${target}${request.url}` }).end()
      )
      const reads = yield* readsAt(redirecting, token)
      assert.strictEqual(yield* codeOf(reads.list({})), "response_contract_failed")
      assert.deepStrictEqual(seen, [], "a redirection is not followed")
    })))
})
