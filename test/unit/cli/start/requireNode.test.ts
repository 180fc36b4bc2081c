/** The command line refuses a Node that is older than the package allows, before it loads anything else. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { oldestNode, refusalOf } from "../../../../src/cli/start/requireNode.ts"
import { manifest } from "../../../../src/node/process/Invocation.ts"

describe("The version of Node", () => {
  it.each(["20.19.5", "22.18.0", "18.0.0"])("%s is refused in one line, which tells how to get another", (version) => {
    const [refusal, command] = refusalOf(version)!.split(". Install a newer Node, or one for this shell: ")
    assert.strictEqual(refusal, `financial-agents-gateway needs Node 22.19 or newer; this is v${version}`)
    assert.match(command!, /^npm install .* && export PATH=\S+:"\$PATH"$/)
  })

  it.each(["22.19.0", "23.0.0", "24.21.0", "100.0.0"])("%s is accepted", (version) => {
    assert.isNull(refusalOf(version))
  })

  it("is the one of the manifest", () => {
    assert.strictEqual(manifest.engines.node, `>=${oldestNode}`)
  })

  it("is checked by the first import of the command line, which imports nothing itself", () => {
    const importsOf = (path: string) =>
      [...readFileSync(path, "utf8").matchAll(/^import .*?"([^"]+)"$/gm)].map(([, module]) => module)
    assert.strictEqual(importsOf("src/main.ts")[0], "./cli/start/requireNode.ts")
    assert.isEmpty(importsOf("src/cli/start/requireNode.ts"))
  })
})
