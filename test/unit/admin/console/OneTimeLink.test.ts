import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ConsoleServer, consoleServer } from "../../../fixtures/console/ConsoleServer.ts"
import { FakeLedger } from "../../../fixtures/console/FakeLedger.ts"
import { Visitor } from "../../../fixtures/console/Visitor.ts"

const Served = Layer.provideMerge(consoleServer(FakeLedger.services), FakeLedger.layer)

describe("the one-time link", () => {
  it.live("opens a session", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = new Visitor(port)
      const a = yield* visitor.send("/console")
      console.log(a)
      console.log(yield* visitor.open(link()))
      console.log(yield* visitor.send("/console/foo"))
      for (
        const path of [
          "session",
          "overview",
          "operations",
          "find?text=key-1",
          "operations/019aa4f0-5c00-7b1e-8d2f-000000000001",
          "operations/x",
          "nothing"
        ]
      ) {
        console.log(yield* visitor.send("/console/api/" + path))
      }
      assert.isTrue(true)
    }).pipe(Effect.provide(Served)))
})
