/** The events of the console: one read of the feed for all pages, no change missed, an end with the session and with the process. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { ConsoleScene } from "../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../fixtures/console/ConsoleServer.ts"
import { idOf } from "../../../fixtures/console/SceneOperations.ts"
import { openEvents, type OpenStream, signIn } from "../../../fixtures/console/Visitor.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"

const Served = Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer)

type Services = ConsoleServer | ConsoleScene | Observer | Scope.Scope

const test = (rule: string, body: () => Effect.Effect<void, never, Services>) =>
  it.effect(rule, () => Effect.scoped(Effect.provide(body(), Served)))

const [first, second] = [idOf(1), idOf(2)]

/** Tells of an operation of the scene again. */
const change = (id: string) => Effect.map(ConsoleScene, (scene) => scene.change(scene.details.get(id)!))

const setDown = (down: boolean) => Effect.map(ConsoleScene, (scene) => void Object.assign(scene, { down }))

const unnamed = { type: "changes", data: { operations: null } }

const named = (...ids: ReadonlyArray<string>) => ({
  type: "changes",
  data: { operations: ids.map((id) => ({ id, state: "indeterminate", revision: 3 })) }
})

const operator = Effect.gen(function*() {
  const { link, port } = yield* ConsoleServer
  return yield* signIn(port, link())
})

/** Lets bytes arrive: the sockets are real. */
const arrive = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 1)))

/** Half a second of the server, in which its loop turns once. */
const pass = Effect.andThen(TestClock.adjust("500 millis"), arrive)

/** The next event of a stream, while time passes: a few minutes of the server's clock at most. */
const nextOf = (stream: OpenStream) =>
  Effect.raceFirst(stream.next, Effect.andThen(Effect.repeat(pass, { times: 500 }), Effect.die("no event, and no end")))

const open = Effect.gen(function*() {
  const stream = yield* openEvents(yield* operator)
  assert.deepStrictEqual(yield* nextOf(stream), unnamed)
  return stream
})

describe("the events of the console", () => {
  test("begin with one that names nothing, and name what changes then", () =>
    Effect.gen(function*() {
      const stream = yield* open
      assert.deepInclude(stream.headers, {
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform"
      })
      yield* change(first)
      assert.deepStrictEqual(yield* nextOf(stream), named(first))
      yield* change(second)
      yield* change(first)
      assert.deepStrictEqual(yield* nextOf(stream), named(second, first))
    }))

  test("reach every page, and cost one read of the feed for all of them", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const visitor = yield* operator
      const streams = yield* Effect.all(Array.from({ length: 10 }, () => openEvents(visitor)))
      for (const stream of streams) assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      const before = scene.feedReads
      yield* change(first)
      for (let turn = 0; turn < 10; turn++) yield* pass
      assert.isAtMost(scene.feedReads - before, 10)
      for (const stream of streams) assert.deepStrictEqual(yield* stream.next, named(first))
    }))

  test("cost nothing without a page", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      for (let turn = 0; turn < 10; turn++) yield* pass
      assert.strictEqual(scene.feedReads, 0)
      const stream = yield* open
      yield* stream.close
      // The server learns of the end by the network.
      for (let reads = -1; reads !== scene.feedReads;) {
        reads = scene.feedReads
        for (let turn = 0; turn < 10; turn++) yield* pass
      }
    }))

  test("name no operation if more than 100 changed at once", () =>
    Effect.gen(function*() {
      const { details } = yield* ConsoleScene
      const detail = details.get(first)!
      for (let number = 100; number < 201; number++) {
        details.set(idOf(number), { ...detail, operation: { ...detail.operation, id: idOf(number) } })
      }
      const stream = yield* open
      for (let number = 100; number < 200; number++) yield* change(idOf(number))
      const hundred = yield* nextOf(stream)
      assert.lengthOf((hundred!.data as { readonly operations: ReadonlyArray<unknown> }).operations, 100)
      for (let number = 100; number < 201; number++) yield* change(idOf(number))
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
    }))

  test("go on after a failover, with one that names nothing", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const stream = yield* open
      yield* change(first)
      scene.epoch++
      // First of the failure, so that the page shows it, and then of its end.
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      yield* change(second)
      assert.deepStrictEqual(yield* nextOf(stream), named(second))
    }))

  test("tell once that the database is down, and once that it is back, and log the failure once", () =>
    Effect.gen(function*() {
      const { lines } = yield* Observer
      const stream = yield* open
      yield* setDown(true)
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      for (let turn = 0; turn < 20; turn++) yield* pass
      yield* setDown(false)
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      yield* change(first)
      assert.deepStrictEqual(yield* nextOf(stream), named(first))
      assert.lengthOf(lines.filter(({ message }) => String(message).startsWith("The console cannot read changes")), 1)
    }))

  test("begin at once while the database is down, so that the page reads and shows it", () =>
    Effect.gen(function*() {
      yield* setDown(true)
      const visitor = yield* operator
      for (let page = 0; page < 2; page++) assert.deepStrictEqual(yield* nextOf(yield* openEvents(visitor)), unnamed)
    }))

  test("of a page beyond the 32nd are refused, until one of the others closes", () =>
    Effect.gen(function*() {
      const visitor = yield* operator
      const streams = yield* Effect.all(Array.from({ length: 32 }, () => openEvents(visitor)), { concurrency: 8 })
      assert.deepStrictEqual(streams.map(({ status }) => status), Array.from({ length: 32 }, () => 200))
      assert.strictEqual((yield* openEvents(visitor)).status, 503)
      assert.strictEqual((yield* visitor.send("/console/api/session")).status, 200, "other requests are served")
      yield* streams[0]!.close
      const again = openEvents(visitor).pipe(
        Effect.flatMap(({ status }) => status === 200 ? Effect.void : Effect.fail("not yet" as const)),
        Effect.eventually
      )
      yield* again
    }))

  test("have a comment every 15 seconds", () =>
    Effect.gen(function*() {
      const stream = yield* open
      while (!stream.text().includes("\n\n: keep-alive\n\n")) {
        yield* pass
      }
    }))

  test("end with the session: by its sign-out, and after an idle hour, which an open stream does not prolong", () =>
    Effect.gen(function*() {
      const visitor = yield* operator
      const stream = yield* openEvents(visitor)
      assert.deepStrictEqual(yield* nextOf(stream), unnamed)
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(
        (yield* visitor.send("/console/api/session", { headers: { "x-console-refresh": "1" } })).status,
        200
      )
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* nextOf(stream))
      assert.strictEqual((yield* openEvents(visitor)).status, 401)

      yield* visitor.send("/console")
      const { link, port } = yield* ConsoleServer
      const other = yield* signIn(port, link())
      const otherStream = yield* openEvents(other)
      assert.deepStrictEqual(yield* nextOf(otherStream), unnamed)
      yield* other.send("/console/api/session", { method: "DELETE" })
      assert.isNull(yield* nextOf(otherStream))
    }))

  it.effect("end when the process stops, so that it need not wait for the pages", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const context = yield* Scope.provide(Layer.build(Served), scope)
      const stream = yield* Effect.provide(open, Context.merge(context, yield* Effect.context<Scope.Scope>()))
      yield* Scope.close(scope, Exit.void)
      assert.isNull(yield* stream.next)
    }))
})
