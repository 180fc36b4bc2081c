/**
 * `npm run package:pack -- DIRECTORY [--built]`: builds, unless `dist` is built, and creates the files of a release. They are the tarball, its SHA-256 for `sha256sum
 * --check`, and an SBOM in CycloneDX format, which contains the time of its creation.
 *
 * With the same Node and npm, a commit always gives the same tarball. npm gives all files one date. This script packs a
 * copy in which all files have one mode, because the modes in a clone depend on its umask. It also sorts the unions in
 * the declarations, because the compiler writes them in the order in which it met the types. Links in Markdown to files that
 * are not packed lead to the repository.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { resolveLinks } from "./resolveLinks.ts"
import { sortUnions } from "./sortUnions.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const destination = path.resolve(process.argv[2] ?? "release")

const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as {
  readonly name: string
  readonly version: string
  readonly repository?: { readonly url: string }
  readonly files: ReadonlyArray<string>
}

const { files, name, version } = manifest

/** Runs npm, with the current Node if npm started this script. */
const npm = (cwd: string, ...args: ReadonlyArray<string>): string => {
  const program = process.env["npm_execpath"]
  const [file, rest] = program === undefined ? ["npm", args] : [process.execPath, [program, ...args]]
  return execFileSync(file, rest, { cwd, encoding: "utf8", maxBuffer: 2 ** 26, stdio: ["ignore", "pipe", "inherit"] })
}

const setModes = (place: string) => {
  const isDirectory = fs.statSync(place).isDirectory()
  fs.chmodSync(place, isDirectory ? 0o755 : 0o644)
  if (isDirectory) { for (const entry of fs.readdirSync(place)) setModes(path.join(place, entry)) }
}

const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "pack-"))
try {
  if (!process.argv.includes("--built")) npm(root, "run", "build")
  // The SBOM names the package after its directory.
  const copy = path.join(temporary, name)
  for (const file of ["package.json", "package-lock.json", "README.md", "LICENSE", ...files]) {
    // What is left out begins with "!".
    if (!file.startsWith("!")) fs.cpSync(path.join(root, file), path.join(copy, file), { recursive: true })
  }
  setModes(copy)
  for (const file of fs.globSync(path.join(copy, "dist/**/*.d.ts"))) {
    fs.writeFileSync(file, sortUnions(fs.readFileSync(file, "utf8")))
  }
  // Its map has positions inside a union, which differ between builds. No public module leads there.
  const consoleContract = path.join(copy, "dist/operator/console/ConsoleApi.d.ts")
  fs.rmSync(`${consoleContract}.map`)
  fs.writeFileSync(
    consoleContract,
    fs.readFileSync(consoleContract, "utf8").replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n")
  )
  for (const file of fs.globSync("**/*.md", { cwd: copy })) {
    fs.writeFileSync(path.join(copy, file), resolveLinks(copy, file, manifest))
  }
  fs.mkdirSync(destination, { recursive: true })
  npm(copy, "pack", "--ignore-scripts", "--loglevel", "error", "--pack-destination", destination)
  const tarball = `${name}-${version}.tgz`
  const digest = createHash("sha256").update(fs.readFileSync(path.join(destination, tarball))).digest("hex")
  fs.writeFileSync(path.join(destination, `${tarball}.sha256`), `${digest}  ${tarball}\n`)
  const sbom = npm(copy, "sbom", "--sbom-format", "cyclonedx", "--package-lock-only")
  fs.writeFileSync(path.join(destination, `${name}-${version}.cdx.json`), sbom)
  process.stdout.write(`${digest}  ${tarball}\n`)
} finally {
  fs.rmSync(temporary, { recursive: true })
}
