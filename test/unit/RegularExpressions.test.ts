/**
 * Input cannot make a regular expression of the source slow, and a logged path is bounded. The tests analyse each
 * expression of every source file, and send long paths over a socket.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import * as fs from "node:fs"
import { checkSync } from "recheck"
import { parseAst } from "vite"
import { maskTokens } from "../../src/server/gate/TokenMask.ts"
import { Gateway, memoryGateway } from "../fixtures/http/HttpGateway.ts"
import { Observer } from "../fixtures/http/HttpObserver.ts"

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

const ours = fc.stringMatching(/^fingw_[0-9A-Za-z]{49}$/)
const jwt = fc.stringMatching(/^eyJ[\w-]{20,90}\.eyJ[\w-]{20,90}\.[\w-]{20,90}$/)

/** The text with some characters percent-encoded, `times` times over. */
const encoded = (text: string, which: ReadonlyArray<boolean>, times: number): string =>
  Array.from(text, (character, at) =>
    which[at % which.length] === true
      ? `%${"25".repeat(times - 1)}${character.charCodeAt(0).toString(16)}`
      : character).join("")

describe("A path in a log line", () => {
  const token = fc.oneof(ours, jwt)

  it("shows nothing of a token: whole or cut off, encoded or not, anywhere", () => {
    fc.assert(
      fc.property(
        token,
        fc.nat(),
        fc.array(fc.boolean(), { minLength: 1, maxLength: 70 }),
        fc.integer({ min: 1, max: 3 }),
        fc.constantFrom("/", "/v1/operations/", "/x/y", "/v1/operations?", "/?token=", "/%2f"),
        fc.constantFrom("", "/", "/more", "?x=1"),
        (secret, length, which, times, before, after) => {
          const part = secret.slice(0, 12 + length % secret.length)
          const shown = maskTokens(before + encoded(part, which, times) + after)
          let plain = shown
          for (let round = 0; round < 4; round++) {
            plain = plain.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number(`0x${hex}`)))
          }
          const start = secret.startsWith("fingw_") ? 6 : 3
          assert.notInclude(plain, part.slice(start, start + 6))
        }
      )
    )
  })

  it("is unchanged if it contains no token", () => {
    for (
      const path of ["/", "/v1/operations", "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f", "/healthz/", "/%zz"]
    ) {
      assert.strictEqual(maskTokens(path), path)
    }
  })

  it("shows the kind of the token, and the text around it", () => {
    assert.strictEqual(maskTokens(`/v1/operations/fingw_${"a".repeat(49)}/x`), "/v1/operations/fingw_…/x")
    assert.strictEqual(maskTokens("/v1/xeyJhbGciOiJ9.eyJzdWIiOiJ9.c2ln"), "/v1/x…")
  })

  it("is cut", () => {
    assert.strictEqual(maskTokens(`/${"a".repeat(20_000)}`), `/${"a".repeat(255)}…`)
  })
})

layer(memoryGateway(), { excludeTestServices: true })("The logged path of a request", (it) => {
  it.effect("is cut, for any content and any length", () =>
    Effect.gen(function*() {
      const { wire } = yield* Gateway
      const { lines } = yield* Observer
      const connection = yield* wire
      for (const part of ["eyJ", "a", "fingw_", "%65yJ", "eyJ.", "."]) {
        for (const length of [100, 8000, 15_000]) {
          connection.send(`GET /${part.repeat(length / part.length)} HTTP/1.1\r\nHost: gateway.test\r\n\r\n`)
          const answer = yield* Effect.promise(() => connection.next())
          assert.strictEqual(answer?.status, length > 8192 ? 414 : 404)
        }
      }
      const paths = lines.map(({ annotations }) => annotations["path"]).filter((path) => typeof path === "string")
      assert.strictEqual(paths.length, 18)
      for (const path of paths) assert.isAtMost(path.length, 257)
      for (const { text } of lines) assert.notMatch(text, /eyJ/)
    }))
})
