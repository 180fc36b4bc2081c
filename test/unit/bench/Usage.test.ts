/** The options of the commands of developers: what they accept, and what their help says. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  choice,
  choices,
  flag,
  helpOf,
  InvalidCall,
  number,
  parseOptions,
  text,
  whole
} from "../../../bench/shared/usage.ts"

const config = {
  rounds: whole("Rounds", { from: 1, to: 50, default: 7 }),
  rate: number("Rate", { from: 0.5, to: 2, default: null }),
  kind: choice("Kind", ["small", "large"]),
  only: choices("Measures only", ["read", "list"]),
  label: text("Label", { takes: "TEXT", default: "none" }),
  since: text("Since", { takes: "[DAY]", default: null, bare: "today" }),
  quick: flag("Short")
}

const refusal = (...args: ReadonlyArray<string>): string => {
  try {
    parseOptions(args, config)
  } catch (error) {
    if (error instanceof InvalidCall) return error.message
    throw error
  }
  return assert.fail(`accepted ${args.join(" ")}`)
}

describe("The options of a developer's command", () => {
  it("have their defaults", () => {
    assert.deepStrictEqual(parseOptions([], config), {
      rounds: 7,
      rate: null,
      kind: null,
      only: ["read", "list"],
      label: "none",
      since: null,
      quick: false
    })
  })

  it("have their bare value if they may stand without one", () => {
    for (const args of [["--since"], ["--since", "--quick"], ["--quick", "--since"], ["--since=today"]]) {
      assert.strictEqual(parseOptions(args, config).since, "today")
    }
    assert.strictEqual(parseOptions(["--since", "monday", "--quick"], config).since, "monday")
  })

  it("are the numbers of their range, and no others", () => {
    fc.assert(fc.property(fc.oneof(fc.integer({ min: -10, max: 100 }), fc.double()), (value) => {
      if (Number.isInteger(value) && value >= 1 && value <= 50) {
        assert.strictEqual(parseOptions([`--rounds=${value}`], config).rounds, value)
      } else assert.strictEqual(refusal(`--rounds=${value}`), "--rounds must be a whole number from 1 to 50")
      if (value >= 0.5 && value <= 2) assert.strictEqual(parseOptions([`--rate=${value}`], config).rate, value)
      else assert.strictEqual(refusal(`--rate=${value}`), "--rate must be a number from 0.5 to 2")
    }))
  })

  it("refuse everything else in one line", () => {
    assert.strictEqual(refusal("--rounds", "many"), "--rounds must be a whole number from 1 to 50")
    assert.strictEqual(refusal("--rounds="), "--rounds must be a whole number from 1 to 50")
    assert.strictEqual(refusal("--kind", "medium"), "--kind must be one of small, large")
    assert.strictEqual(refusal("--only", "read", "--only", "write"), "--only must be one of read, list")
    assert.strictEqual(refusal("--label="), "--label must not be empty")
    for (const args of [["--fast"], ["stray"], ["--rounds"], ["--rounds", "-1"], ["--quick=yes"]]) {
      assert.match(refusal(...args), /^[^\n]+$/)
    }
  })

  it("are in the help with range and default, below the comment of the script", () => {
    assert.strictEqual(
      helpOf("/**\n * `npm run x`: measures.\n *\n *     npm run x -- --quick\n */\nimport", config),
      [
        "`npm run x`: measures.",
        "",
        "    npm run x -- --quick",
        "",
        "Options:",
        "  --rounds N     Rounds: 1 to 50 (default 7)",
        "  --rate X       Rate: 0.5 to 2",
        "  --kind NAME    Kind: small, large",
        "  --only NAME    Measures only: read, list; may be repeated (default all)",
        "  --label TEXT   Label (default none)",
        "  --since [DAY]  Since",
        "  --quick        Short",
        ""
      ].join("\n")
    )
  })
})
