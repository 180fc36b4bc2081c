import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"

/** Every import of every source file, as [file, module]. Relative modules are named by their path below src. */
const imports = fs.globSync("src/**/*.ts").flatMap((file) =>
  [...fs.readFileSync(file, "utf8").matchAll(/^(?:import|export)[^"]*?from "([^"]+)"|^import "([^"]+)"/gms)]
    .map(([, from, bare]) => from ?? bare!)
    .map((module) => [
      path.relative("src", file),
      module.startsWith(".") ? path.relative("src", path.join(path.dirname(file), module)) : module
    ])
) as ReadonlyArray<readonly [file: string, module: string]>

const room = (file: string) => file.split("/")[0]!

const violations = (files: (file: string) => boolean, allowed: (module: string) => boolean) =>
  imports.filter(([file, module]) => files(file) && !allowed(module)).map(([file, module]) =>
    `${file} imports ${module}`
  )

const effectModule = /^effect\/(?<name>[a-z][A-Za-z-]*)(?:\/|$)/

/** Families of Effect that reach outside of the program. */
const isPure = (module: string) => {
  const family = effectModule.exec(module)?.groups?.["name"]
  return module.startsWith("effect/") && (family === undefined || ["crypto", "encoding"].includes(family))
}

describe("The rooms of the source", () => {
  it("are seen by this test at all", () => {
    assert.isAbove(imports.length, 300)
    assert.deepInclude(imports, ["server/OperationsHandlers.ts", "services/OperationStore.ts"])
  })

  it("domain imports pure Effect modules, and nothing else of ours", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "domain",
        (module) => room(module) === "domain" || isPure(module) || module === "canonicalize"
      ),
      []
    )
  })

  it("api imports domain, effect/http and effect/http-api: a browser can import it", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "api",
        (module) =>
          ["api", "domain"].includes(room(module)) || isPure(module) || /^effect\/http(?:-api)?\//.test(module)
      ),
      []
    )
  })

  it("oauth knows tokens, proofs and authorization servers, and nothing of ours but the domain", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "oauth",
        (module) =>
          ["oauth", "domain"].includes(room(module)) || isPure(module) || module === "jose"
          || /^effect\/(?:http|persistence)\//.test(module)
      ),
      []
    )
  })

  it("services know nothing of HTTP", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "services",
        (module) =>
          !["api", "server", "submission", "sandbox", "cli", "embedded"].includes(room(module))
          && !/^effect\/http|^node:/.test(module)
      ),
      []
    )
  })

  it("submission knows neither the API nor the platform: its providers speak HTTP through Effect's client", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "submission",
        (module) =>
          !["api", "server", "cli", "embedded"].includes(room(module)) && !/^effect\/http-api|^node:/.test(module)
          // The one adapter for the one provider that comes with the project shares its wire with it.
          && (room(module) !== "sandbox" || module === "sandbox/Protocol.ts")
      ),
      []
    )
  })

  it("the sandbox is a provider: it knows nothing of the gateway but what it hears", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "sandbox",
        (module) =>
          !["api", "server", "services", "submission", "cli", "embedded"].includes(room(module))
          && !/^effect\/(?:http|sql)/.test(module)
      ),
      []
    )
  })

  it("server imports inward, and no SQL", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "server",
        (module) =>
          !["submission", "sandbox", "cli", "embedded"].includes(room(module)) && !module.startsWith("effect/sql")
      ),
      []
    )
  })

  it("only services speak SQL; the embedded database opens the connections for them", () => {
    assert.deepStrictEqual(
      violations(
        (file) => !["services", "embedded"].includes(room(file)),
        (module) => !module.startsWith("effect/sql")
      ),
      []
    )
  })

  it("only main and embedded know the platform", () => {
    assert.deepStrictEqual(
      violations((file) => file !== "main.ts" && room(file) !== "embedded", (module) => !module.startsWith("@effect/")),
      []
    )
  })

  it("api/Client, bundled for the browser, holds no Node, SQL or server module", async () => {
    const { metafile } = await build({
      entryPoints: ["src/api/Client.ts"],
      bundle: true,
      platform: "browser",
      format: "esm",
      write: false,
      metafile: true
    })
    const inputs = Object.keys(metafile.inputs)
    assert.isTrue(inputs.some((input) => input.endsWith("src/api/Client.ts")))
    assert.deepStrictEqual(
      inputs.filter((input) =>
        /^src\/(?!api\/|domain\/)/.test(input) || /node:|\/sql\/|@effect\/|platform-node|\/cli\//.test(input)
      ),
      []
    )
    const externals = Object.values(metafile.inputs).flatMap((input) => input.imports.filter((entry) => entry.external))
    assert.deepStrictEqual(externals, [])
  })
})
