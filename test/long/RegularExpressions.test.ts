/** Input cannot make a regular expression of the source slow. The tests analyse each expression of every source file. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { checkSync } from "recheck"
import { parseAst } from "vite"

// The analysis in JavaScript: the other implementations start a process.
process.env["RECHECK_SYNC_BACKEND"] = "pure"

interface Expression {
  readonly file: string
  readonly source: string
  readonly flags: string
}

interface Node {
  readonly type: string
  readonly [member: string]: unknown
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value

/** The node and everything below it. */
function* walk(value: unknown): Generator<Node> {
  if (Array.isArray(value)) { for (const element of value) yield* walk(element) }
  else if (isNode(value)) {
    yield value
    for (const member of Object.values(value)) yield* walk(member)
  }
}

/** The text of a string literal, a template or a constant of the file. Null if only running the code yields it. */
const textOf = (value: unknown, constants: ReadonlyMap<string, unknown>): string | null => {
  if (!isNode(value)) return null
  switch (value.type) {
    case "Literal":
      return typeof value["value"] === "string" ? value["value"] : null
    case "Identifier":
      return textOf(constants.get(value["name"] as string), constants)
    case "TaggedTemplateExpression": {
      const [part, ...more] = (value["quasi"] as { quasis: ReadonlyArray<{ value: { raw: string } }> }).quasis
      return more.length === 0 ? part!.value.raw : null
    }
    case "TemplateLiteral": {
      const parts = value["quasis"] as ReadonlyArray<{ value: { cooked: string } }>
      const between = (value["expressions"] as ReadonlyArray<unknown>).map((expression) =>
        textOf(expression, constants)
      )
      return between.includes(null) ? null : parts.map((part, at) => part.value.cooked + (between[at] ?? "")).join("")
    }
    default:
      return null
  }
}

/** The expressions of a file: literals, and calls of `RegExp`, whose source must be readable without running it. */
const expressionsOf = (file: string, text: string): ReadonlyArray<Expression> => {
  const nodes = [...walk(parseAst(text, { lang: "ts" }))]
  const constants = new Map(
    nodes.filter(({ type }) => type === "VariableDeclarator").map((
      { id, init }
    ) => [(id as { name: string }).name, init])
  )
  return nodes.flatMap((node): ReadonlyArray<Expression> => {
    const regex = node["regex"] as { readonly pattern: string; readonly flags: string } | undefined
    if (node.type === "Literal" && regex !== undefined) return [{ file, source: regex.pattern, flags: regex.flags }]
    const isCall = node.type === "NewExpression" || node.type === "CallExpression"
    if (!isCall || (node["callee"] as { name?: string }).name !== "RegExp") return []
    const [pattern, flags] = node["arguments"] as ReadonlyArray<unknown>
    const source = textOf(pattern, constants)
    assert.isNotNull(source, `${file} builds an expression that this test cannot read: write it as a literal`)
    return [{ file, source: source!, flags: flags === undefined ? "" : textOf(flags, constants) ?? "" }]
  })
}

const all = fs.globSync("src/**/*.ts").flatMap((file) => expressionsOf(file, fs.readFileSync(file, "utf8")))

/** Each expression once, with one of the files that have it. */
const expressions = [
  ...new Map(all.map((expression) => [`/${expression.source}/${expression.flags}`, expression])).values()
]

/** The growth of the steps with the length of the worst input. The measure does not depend on time. */
const analyse = ({ flags, source }: Pick<Expression, "flags" | "source">) => {
  const verdict = checkSync(source, flags, {
    timeout: null,
    attackTimeout: null,
    incubationTimeout: null,
    seedingTimeout: null
  })
  return verdict.status === "safe"
    ? "linear"
    : JSON.stringify(verdict.status === "unknown" ? verdict : verdict.complexity)
}

/** The expression without upper bounds of 10 or more. It takes at least as many steps, and its analysis far fewer. */
const unbounded = (source: string) =>
  source.replaceAll(
    /\{(\d+)(?:,(\d+))?\}/g,
    (bounds, least: string, most: string | undefined) => Number(most ?? least) < 10 ? bounds : least === "0" ? "*" : "+"
  )

const complexityOf = ({ flags, source }: Pick<Expression, "flags" | "source">) =>
  analyse({ source: unbounded(source), flags }) === "linear" ? "linear" : analyse({ source, flags })

describe("The analysis of expressions", () => {
  it("finds the expressions of the source in every notation", () => {
    assert.isAbove(all.length, 60)
    const found = expressionsOf(
      "made-up.ts",
      "const part = `a+`; const raw = String.raw`\\d`; text.replace(/x+$/g, ''); new RegExp(`^${part}${raw}b`, 'i')"
    )
    assert.deepStrictEqual(found.map(({ flags, source }) => [source, flags]), [["x+$", "g"], ["^a+\\db", "i"]])
    assert.throws(() => expressionsOf("made-up.ts", "new RegExp(input)"), "cannot read")
  })

  it("detects slow expressions: quadratic from every start, and exponential", () => {
    const slow = ["eyJ[\\w-]+\\.", "/+$", "\\s*\\n\\s*", "^(?:a|a)*$"]
    for (const source of slow) {
      assert.match(complexityOf({ source, flags: "g" }), /"(?:polynomial|exponential)"/, source)
    }
  })
})

describe("Input", () => {
  it.each(expressions)("costs time in proportion to its length in $file: /$source/$flags", (expression) => {
    assert.strictEqual(complexityOf(expression), "linear")
  })
})
