/**
 * The program that `npm run build` makes is one file. The tests run that file alone, in an empty folder, and read what the
 * bundler says of it.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { isBuiltin } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { bundle, externals, writeDocsScript } from "../../../scripts/bundle.ts"
import { bundleAssets } from "../../../scripts/consoleBundle.ts"
import { noticesOf, packagesOf } from "../../../scripts/notices.ts"
import { newerNode } from "../../../src/cli/start/requireNode.ts"
import { environment, manifest, timeout } from "../../fixtures/package/Release.ts"

type Metafile = Awaited<ReturnType<typeof bundle>>

describe("The program", () => {
  let temporary = ""
  let file = ""
  let metafile: Metafile

  beforeAll(async () => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "bundle-"))
    fs.mkdirSync(path.join(temporary, "alone"))
    metafile = await bundle(path.join(temporary, "dist", "main.mjs"))
    file = path.join(temporary, "alone", "main.mjs")
    fs.copyFileSync(path.join(temporary, "dist", "main.mjs"), file)
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
    spawnSync(process.execPath, [file, ...args], {
      cwd: path.dirname(file),
      encoding: "utf8",
      env: { ...environment, NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "", ...env }
    })

  it("is one file that imports what is built into Node, and no package except the declared externals", () => {
    assert.deepStrictEqual(fs.readdirSync(path.join(temporary, "dist")), ["main.mjs"])
    const [output] = Object.values(metafile.outputs)
    const imported = output!.imports.map(({ path: name }) => name)
    assert.isAbove(imported.length, 10)
    assert.deepStrictEqual(imported.filter((name) => !isBuiltin(name) && !externals.includes(name)), [])
  })

  it("shows its help, alone in a folder", () => {
    // `test/system/cli/Commands.test.ts` reads the help of every command.
    for (const command of [[], ["operations", "accept"]]) {
      const { status, stderr, stdout } = run([...command, "--help"])
      assert.deepStrictEqual([status, stderr], [0, ""], command.join(" "))
      assert.include(stdout, "USAGE", command.join(" "))
    }
  })

  it("has the version of the package", () => {
    assert.include(run(["--version"]).stdout, manifest.version)
  })

  it("enables the compiled schemas", () => {
    // The module has no exports. A bundler that takes it for unused makes each response several times slower.
    const inputs = Object.keys(metafile.inputs).filter((input) => input.endsWith("/schema/SchemaJITCompiler/enable.js"))
    assert.lengthOf(inputs, 1)
    const [output] = Object.values(metafile.outputs)
    assert.isAbove(output!.inputs[inputs[0]!]?.bytesInOutput ?? 0, 0)
  })

  it("has ASCII characters alone: V8 keeps a source with any other one in two bytes for each", () => {
    assert.deepStrictEqual(fs.readFileSync(file, "utf8").match(/.{0,40}[^ -~\n\t].{0,40}/g), null)
  })

  it("says in one line what is missing, without the migrations beside it", () => {
    const { status, stderr } = run(["migrate"], { DATABASE_URL: "postgres://user@127.0.0.1:1/none" })
    assert.strictEqual(status, 1)
    assert.match(stderr, /^error: [^\n]+\n$/)
  })

  it("refuses Node 20 in one line, which tells how to get another", ({ skip }) => {
    // `npm ci` installs the Node that the tests run on. A clone begins with an older one, if the machine has one.
    const candidates = (process.env["PATH"] ?? "").split(path.delimiter).map((folder) => path.join(folder, "node"))
    const old = candidates.find((node) =>
      fs.existsSync(node) && execFileSync(node, ["--version"], { encoding: "utf8" }).startsWith("v20.")
    )
    if (old === undefined) skip("the machine has no Node 20")
    const { status, stderr, stdout } = spawnSync(old!, [file, "serve"], { encoding: "utf8" })
    const version = execFileSync(old!, ["--version"], { encoding: "utf8" }).trim()
    assert.deepStrictEqual([status, stdout], [1, ""])
    assert.strictEqual(
      stderr,
      `error: financial-agents-gateway needs Node 22.19 or newer; this is ${version}. ${newerNode}\n`
    )
  })

  it("comes with the licence of each package in it, and of the script of its documentation page", async () => {
    const page = (await bundleAssets(path.resolve("console"))).metafile
    const notices = noticesOf(metafile, page, await writeDocsScript(temporary))
    const packages = [...packagesOf(metafile), ...packagesOf(page)]
    const names = packages.map((folder) => folder.split("node_modules/").at(-1)!)
    assert.includeMembers(names, [
      "effect",
      "@effect/sql-pg",
      "jose",
      "undici",
      "preact",
      ...Object.keys(manifest.dependencies)
    ])
    for (const name of [...names, "@scalar/api-reference"]) assert.match(notices, new RegExp(`^${name} \\d+\\.`, "m"))
    for (const folder of packages) {
      const licence = fs.readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
      // A package that is published without its licence has it in scripts/licences.
      const file = licence === undefined
        ? `scripts/licences/${folder.split("node_modules/").at(-1)!.replace("/", "+")}.txt`
        : path.join(folder, licence)
      assert.include(notices, fs.readFileSync(file, "utf8").trim(), folder)
    }
    assert.include(notices, "Copyright (c) 2023-present Scalar")
  })
})
