/** The setting `MCP_ALLOWED_ORIGINS` takes origins alone, so that a wrong one stops the start. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit } from "effect"
import { layerAllowedOrigins } from "../../../../src/node/http/HttpSettings.ts"
import { AllowedOrigins } from "../../../../src/server/agents/AllowedOrigins.ts"

const originsOf = (text: string | undefined) =>
  Effect.exit(AllowedOrigins.pipe(
    Effect.provide(layerAllowedOrigins),
    Effect.provide(
      ConfigProvider.layer(ConfigProvider.fromUnknown(text === undefined ? {} : { MCP_ALLOWED_ORIGINS: text }))
    )
  ))

describe("MCP_ALLOWED_ORIGINS", () => {
  it.effect("allows no origin by default, and those that it names", () =>
    Effect.gen(function*() {
      for (const text of [undefined, "", " "]) assert.deepStrictEqual(yield* originsOf(text), Exit.succeed([]))
      assert.deepStrictEqual(
        yield* originsOf("https://agents.example, http://localhost:8080"),
        Exit.succeed(["https://agents.example", "http://localhost:8080"])
      )
    }))

  it.effect("refuses all that no browser sends as an origin", () =>
    Effect.gen(function*() {
      const wrong = [
        "*",
        "null",
        "agents.example",
        "https://agents.example/",
        "https://Agents.example",
        "ftp://a.example"
      ]
      for (const text of [...wrong, "https://agents.example,", "https://a.example https://b.example"]) {
        assert.isTrue(Exit.isFailure(yield* originsOf(text)), text)
      }
    }))
})
