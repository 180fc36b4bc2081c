/**
 * A release is the same tarball from every clone of a commit, with its checksum and an SBOM. The tests run the commands of
 * its workflow.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { deadLinks } from "../../fixtures/Markdown.ts"
import { builtDist } from "../../fixtures/package/Containerfile.ts"
import {
  cloneTo,
  manifest,
  packedRelease,
  runIn,
  scriptsOfBuild,
  tarball,
  timeout
} from "../../fixtures/package/Release.ts"

const makeOldAndPrivate = (place: string) => {
  for (const entry of fs.readdirSync(place, { withFileTypes: true })) {
    const below = path.join(place, entry.name)
    if (entry.isSymbolicLink()) continue
    if (entry.isDirectory()) makeOldAndPrivate(below)
    fs.chmodSync(below, 0o700)
    fs.utimesSync(below, 1e9, 1e9)
  }
}

describe("A release", () => {
  let temporary = ""
  let release = ""

  beforeAll(async () => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "release-"))
    release = await packedRelease()
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  it(
    "has the bytes of its checksum, also from a clone with other dates, permissions and path, and built in another place",
    async () => {
      const digest = createHash("sha256").update(fs.readFileSync(path.join(release, tarball))).digest("hex")
      assert.strictEqual(fs.readFileSync(path.join(release, `${tarball}.sha256`), "utf8"), `${digest}  ${tarball}\n`)
      const clone = cloneTo(path.join(temporary, "another", "place", "of", "another", "length"))
      fs.cpSync(await builtDist(), path.join(clone, "dist"), { recursive: true })
      makeOldAndPrivate(clone)
      const named = scriptsOfBuild.filter((script) => script.startsWith("npm pkg set"))
      assert.lengthOf(named, 1)
      runIn(clone, ["umask 077", ...named, "npm run package:pack -- out --built"])
      assert.strictEqual(
        fs.readFileSync(path.join(clone, "out", `${tarball}.sha256`), "utf8"),
        fs.readFileSync(path.join(release, `${tarball}.sha256`), "utf8")
      )
    },
    timeout
  )

  it("is refused under a tag that does not name its version", () => {
    const [check] = scriptsOfBuild
    assert.include(check, "GITHUB_REF_NAME")
    runIn(".", [check!])
    for (const tag of [`v${manifest.version}0`, manifest.version, "v", ""]) {
      assert.throws(() => runIn(".", [check!], { GITHUB_REF_NAME: tag }))
    }
  })

  it("holds the program and names the repository that its provenance names", () => {
    const list = execFileSync("tar", ["-tzf", path.join(release, tarball)], { encoding: "utf8" }).trim().split("\n")
    const built = [
      "main.js",
      "main.modules.js",
      "docs-page.txt",
      "THIRD-PARTY-NOTICES.txt",
      "api/Client.js",
      "api/Client.d.ts"
    ]
    assert.includeMembers(list, built.map((file) => `package/dist/${file}`))
    const allowed = [...manifest.files, "package.json", "README.md", "LICENSE"].map((file) => `package/${file}`)
    assert.deepStrictEqual(
      list.filter((file) => !allowed.some((name) => file === name || file.startsWith(`${name}/`))),
      []
    )
    const packed = JSON.parse(
      execFileSync("tar", ["-xzOf", path.join(release, tarball), "package/package.json"], { encoding: "utf8" })
    ) as { readonly repository: unknown }
    assert.deepStrictEqual(packed.repository, { type: "git", url: "git+https://git.example/owner/name.git" })
  })

  it("links in its Markdown only to files and headings that it holds, and else to its repository", () => {
    const unpacked = path.join(temporary, "unpacked")
    fs.mkdirSync(unpacked)
    execFileSync("tar", ["-xzf", path.join(release, tarball), "-C", unpacked])
    const root = path.join(unpacked, "package")
    const files = fs.globSync("**/*.md", { cwd: root })
    assert.includeMembers(files, ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/fapi.md"])
    assert.deepStrictEqual(files.flatMap((file) => deadLinks(root, file)), [])
    assert.include(
      fs.readFileSync(path.join(root, "docs/fapi.md"), "utf8"),
      `](https://git.example/owner/name/blob/v${manifest.version}/test/unit/oauth/Issuer.test.ts)`
    )
  })

  it("passes publint and attw, as `npm run package:check` runs them", () => {
    runIn(".", [`npm run package:check -- ${path.join(release, tarball)}`])
  }, timeout)

  it("comes with an SBOM that lists its dependencies, and marks those of development", () => {
    const { bomFormat, components, metadata } = JSON.parse(
      fs.readFileSync(path.join(release, `${manifest.name}-${manifest.version}.cdx.json`), "utf8")
    ) as {
      readonly bomFormat: string
      readonly metadata: { readonly component: { readonly name: string; readonly version: string } }
      readonly components: ReadonlyArray<{
        readonly name: string
        readonly version: string
        readonly properties: ReadonlyArray<{ readonly name: string; readonly value: string }>
      }>
    }
    assert.strictEqual(bomFormat, "CycloneDX")
    assert.include(metadata.component, { name: manifest.name, version: manifest.version })
    const [developed, used] = [true, false].map((isDevelopment) =>
      components.filter(({ properties }) =>
        properties.some(({ name, value }) => name === "cdx:npm:package:development" && value === "true")
          === isDevelopment
      ).map(({ name, version }) => `${name}@${version}`)
    )
    assert.includeMembers(used!, Object.entries(manifest.dependencies).map(([name, version]) => `${name}@${version}`))
    assert.isTrue(used!.some((name) => name.startsWith("effect@")))
    assert.isTrue(developed!.some((name) => name.startsWith("vitest@")))
  })
})
