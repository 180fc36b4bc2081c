/** The program adds its start settings once, below those of the user. */
import { assert, describe, it } from "@effect/vitest"
import { type Start, withSettings } from "../../../../src/cli/start/StartSettings.ts"

const start = (changes: Partial<Start>): Start => ({
  nodeOptions: [],
  program: "/app/main.js",
  args: ["serve"],
  environment: { PATH: "/bin" },
  ...changes
})

describe("Start settings", () => {
  it("are added to the options, after which nothing is left to add", () => {
    const given = start({
      nodeOptions: ["--enable-source-maps"],
      args: ["--database-url", "x", "serve", "--port", "1"]
    })
    const next = withSettings(given)
    assert.deepStrictEqual(next, { ...given, nodeOptions: ["--enable-source-maps", "--max-semi-space-size=16"] })
    assert.isNull(withSettings(next!))
  })

  it.each<readonly [Partial<Start>]>([
    [{ nodeOptions: ["--max-semi-space-size=1"] }],
    [{ nodeOptions: ["--max_semi_space_size", "1"] }],
    [{ environment: { NODE_OPTIONS: "--trace-warnings --max-semi-space-size=1" } }]
  ])("leave a flag of the user alone: %j", (changes) => {
    assert.isNull(withSettings(start(changes)))
  })

  it("are none for other commands", () => {
    for (const args of [[], ["work"], ["--help"]]) assert.isNull(withSettings(start({ args })))
  })

  it("run the modules for the adapters of --providers, if there are modules", () => {
    const existing = import.meta.filename
    for (const args of [["work", "--providers", "a.ts"], ["work", "--providers=a.ts"]]) {
      assert.strictEqual(withSettings(start({ args }), existing)?.program, existing)
      assert.isNull(withSettings(start({ args }), "/nowhere/main.modules.js"))
    }
    assert.isNull(withSettings(start({ args: ["work", "--sandbox", "b=http://b"] }), existing))
  })
})
