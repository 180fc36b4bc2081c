/**
 * `init` creates a project in a new or empty folder, and changes nothing in any other. The tests run it as a process.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { cloneTo, tarball } from "../../fixtures/package/Release.ts"
import { run } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const readManifest = (file: string) =>
  JSON.parse(fs.readFileSync(file, "utf8")) as {
    readonly name: string
    readonly engines: object
    readonly dependencies: Readonly<Record<string, string>>
    readonly devDependencies: Readonly<Record<string, string>>
  }

/** A clone with a tarball, as `npm pack` leaves it, and the folder that `init` makes there. */
const initInClone = (temporary: string) => {
  const clone = cloneTo(path.join(temporary, "clone"))
  fs.writeFileSync(path.join(clone, tarball), "packed")
  const stdout = execFileSync(process.execPath, ["src/main.ts", "init", "../My Payments"], {
    cwd: clone,
    encoding: "utf8"
  })
  return { stdout, project: path.join(temporary, "My Payments") }
}

describe("init", () => {
  it.live("copies the template and the tarball, with the versions of this package and the name of the folder", () =>
    Effect.gen(function*() {
      const { project, stdout } = initInClone(yield* temporaryDirectory)
      assert.include(stdout, "  cd '../My Payments' && npm install\n  npm start\n")
      const template = fs.readdirSync("template", { recursive: true, encoding: "utf8" }).map((file) =>
        file.replace(/^gitignore$/, ".gitignore")
      )
      assert.sameMembers(fs.readdirSync(project, { recursive: true, encoding: "utf8" }), [
        ...template,
        ".npmrc",
        "package.json",
        tarball
      ])
      assert.include(fs.readFileSync(path.join(project, ".gitignore"), "utf8"), "node_modules/")
      const own = readManifest("package.json")
      const made = readManifest(path.join(project, "package.json"))
      assert.strictEqual(made.name, "my-payments")
      assert.deepStrictEqual(made.engines, own.engines)
      assert.strictEqual(fs.readFileSync(path.join(project, ".npmrc"), "utf8"), "engine-strict=true\n")
      const versions = { ...own.devDependencies, ...own.dependencies, [own.name]: `file:${tarball}` }
      for (const [name, version] of Object.entries({ ...made.dependencies, ...made.devDependencies })) {
        assert.strictEqual(version, versions[name], name)
      }
    }).pipe(Effect.scoped))

  it.live("refuses a folder that is not empty and a file, in one line, and changes nothing", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryDirectory
      const file = path.join(folder, "notes.txt")
      fs.writeFileSync(file, "notes")
      for (const place of [folder, file]) {
        const { code, stderr } = yield* run(["init", place], {})
        assert.strictEqual(code, 1)
        assert.match(stderr, /^error: .* is not (?:empty: specify a new or an empty folder|a folder)\n$/)
        assert.include(stderr, place)
      }
      assert.deepStrictEqual(fs.readdirSync(folder), ["notes.txt"])
    }).pipe(Effect.scoped))
})
