import { parse } from "@babel/parser"

/**
 * Sorts the members of unions that the compiler inferred in a declaration file. TypeScript 7 writes them in another
 * order each time. The order has no meaning, but the bytes of a release would differ.
 *
 * Unions in type aliases and interfaces stay, because the compiler copies them from the source. Unions with comments
 * stay, too.
 */
export const sortUnions = (declarations: string): string => {
  const { program } = parse(declarations, { sourceType: "module", plugins: [["typescript", { dts: true }]] })
  return write(declarations, { ...program, start: 0, end: declarations.length })
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && "start" in value && "end" in value

const childrenOf = (node: Node): ReadonlyArray<Node> => Object.values(node).flat().filter(isNode)

const asWritten = ["TSTypeAliasDeclaration", "TSInterfaceDeclaration"]

/** The outermost unions in a node, in order. */
const unionsIn = (node: Node): ReadonlyArray<Node> =>
  childrenOf(node).flatMap((child) =>
    asWritten.includes(child.type) ? [] : child.type === "TSUnionType" ? [child] : unionsIn(child)
  )

const write = (source: string, node: Node): string => {
  let [written, at] = ["", node.start]
  for (const union of unionsIn(node)) {
    written += source.slice(at, union.start) + writeUnion(source, union)
    at = union.end
  }
  return written + source.slice(at, node.end)
}

const writeUnion = (source: string, union: Node): string => {
  const members = childrenOf(union)
  const isPlain = members.slice(1).every((member, index) =>
    /^\s*\|\s*$/.test(source.slice(members[index]!.end, member.start))
  )
  return isPlain ? members.map((member) => write(source, member)).sort().join(" | ") : write(source, union)
}
