/**
 * `init` creates a project in a new or empty folder, and changes nothing in any other. The tests run it as a process.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { cloneTo, tarball } from "../../fixtures/package/Release.ts"
import { run } from "../../fixtures/processes/CommandLine.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const readManifest = (file: string) =>
  JSON.parse(fs.readFileSync(file, "utf8")) as {
    readonly name: string
    readonly engines: object
    readonly scripts: { readonly start: string }
    readonly dependencies: Readonly<Record<string, string>>
    readonly devDependencies: Readonly<Record<string, string>>
  }

/** A clone with a tarball, as `npm pack` leaves it, and the folder that `init` makes there. */
const initInClone = (temporary: string) => {
  const clone = cloneTo(path.join(temporary, "clone"))
  fs.writeFileSync(path.join(clone, tarball), "packed")
  const initOn = (version: string) =>
    spawnSync(process.execPath, ["src/main.ts", "init", "../My Payments"], {
      cwd: clone,
      encoding: "utf8",
      env: { ...process.env, npm_config_user_agent: `npm/10.8.2 node/${version} linux x64 workspaces/false` }
    })
  return { initOn, clone, project: path.join(temporary, "My Payments") }
}

describe("init", () => {
  it.live("copies the template and the tarball, with the versions of this package and the name of the folder", () =>
    Effect.gen(function*() {
      const { clone, initOn, project } = initInClone(yield* temporaryDirectory)
      const old = initOn("v20.19.5")
      assert.deepStrictEqual([old.status, old.stdout, fs.existsSync(project)], [1, "", false])
      assert.strictEqual(
        old.stderr,
        "error: the project needs Node 22.19 or newer, and your npm runs on v20.19.5. Install a newer Node, or take that of this "
          + `clone: export PATH=${fs.realpathSync(clone)}/node_modules/node/bin:"$PATH"\n`
      )
      const { stdout } = initOn("v22.19.0")
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
      // Secrets enter neither the repository nor the image.
      const linesOf = (file: string) => fs.readFileSync(path.join(project, file), "utf8").split("\n")
      assert.includeMembers(linesOf(".gitignore"), ["node_modules/", ".data/", ".env*"])
      assert.includeMembers(linesOf(".dockerignore"), ["node_modules", ".data", ".git", "**/.env*", "**/.npmrc"])
      const own = readManifest("package.json")
      const made = readManifest(path.join(project, "package.json"))
      assert.strictEqual(made.name, "my-payments")
      assert.deepStrictEqual(made.engines, own.engines)
      assert.strictEqual(fs.readFileSync(path.join(project, ".npmrc"), "utf8"), "engine-strict=true\n")
      for (const [env, line] of [[{}, "Starting PostgreSQL…\n"], [{ DATABASE_URL: "postgres:///x" }, ""]] as const) {
        const { stderr } = spawnSync("/bin/sh", ["-c", made.scripts.start], {
          env: { ...env, PATH: "" },
          encoding: "utf8"
        })
        assert.match(stderr, new RegExp(`^${line}(?!Starting).*node`))
      }
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
