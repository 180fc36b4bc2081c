/** The program adds its start settings once, below those of the user. */
import { assert, describe, it } from "@effect/vitest"
import { programFor, type Start, withSettings } from "../../../../src/cli/start/StartSettings.ts"

const table = { serve: { flags: ["--max-semi-space-size=16"], environment: { MALLOC_ARENA_MAX: "2" } } }

const start = (changes: Partial<Start>): Start => ({
  nodeOptions: [],
  program: "/app/main.js",
  args: ["serve"],
  environment: { PATH: "/bin" },
  ...changes
})

const inherited = { PATH: "/bin", MALLOC_ARENA_MAX: "2" }

describe("Start settings", () => {
  it("are added to the options, after which nothing is left to add", () => {
    const given = start({
      nodeOptions: ["--enable-source-maps"],
      args: ["--database-url", "x", "serve", "--port", "1"]
    })
    const next = withSettings(given, table)
    assert.deepStrictEqual(next, {
      ...given,
      nodeOptions: ["--enable-source-maps", "--max-semi-space-size=16"],
      environment: inherited
    })
    assert.isNull(withSettings(next!, table))
  })

  it.each<readonly [Partial<Start>]>([
    [{ nodeOptions: ["--max-semi-space-size=1"] }],
    [{ nodeOptions: ["--max_semi_space_size", "1"] }],
    [{ environment: { NODE_OPTIONS: "--trace-warnings --max-semi-space-size=1" } }]
  ])("leave a flag of the user alone: %j", (changes) => {
    const given = start({ ...changes, environment: { ...inherited, ...changes.environment } })
    assert.isNull(withSettings(given, table))
  })

  it("leave a variable of the user alone, even if it is empty", () => {
    const next = withSettings(start({ environment: { MALLOC_ARENA_MAX: "" } }), table)
    assert.deepStrictEqual(next?.environment, { MALLOC_ARENA_MAX: "" })
  })

  it("are none for other commands", () => {
    for (const args of [[], ["work"], ["--help"]]) assert.isNull(withSettings(start({ args }), table))
  })

  it("run the modules for the adapters of --providers, if there are modules", () => {
    const existing = import.meta.filename
    for (const args of [["work", "--providers", "a.ts"], ["work", "--providers=a.ts"]]) {
      assert.strictEqual(programFor(start({ args }), existing), existing)
      assert.strictEqual(programFor(start({ args }), "/nowhere/main.modules.js"), "/app/main.js")
      assert.strictEqual(withSettings(start({ args }), table, existing)?.program, existing)
    }
    assert.strictEqual(programFor(start({ args: ["work", "--sandbox", "b=http://b"] }), existing), "/app/main.js")
  })
})
