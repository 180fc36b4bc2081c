/**
 * Checks the package as it is published: `npm run package:check -- [TARBALL]`, or packs one first.
 *
 * publint reads package.json and the files, attw resolves the types of each public module. The package is ESM only, so
 * that attw does not look at how CommonJS resolves it.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

const run = (file: string, ...args: ReadonlyArray<string>): void => {
  execFileSync(process.execPath, [path.join(root, file), ...args], { stdio: "inherit" })
}

const check = (tarball: string): void => {
  run("node_modules/publint/src/cli.js", "--strict", tarball)
  run(
    "node_modules/@arethetypeswrong/cli/dist/index.js",
    "--profile",
    "esm-only",
    "--format",
    "table-flipped",
    "--no-emoji",
    tarball
  )
}

const [given] = process.argv.slice(2)
if (given !== undefined) check(path.resolve(given))
else {
  const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "check-"))
  try {
    run("scripts/pack.ts", temporary)
    check(fs.globSync(path.join(temporary, "*.tgz"))[0]!)
  } finally {
    fs.rmSync(temporary, { recursive: true })
  }
}
