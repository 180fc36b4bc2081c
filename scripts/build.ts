/**
 * `npm run build`: writes `dist`. It holds the compiled modules with their types, and the program (`main.js`), which is one file
 * that needs no package. `main.modules.js` is the same program as modules.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { bundle, root, writeDocsScript } from "./bundle.ts"
import { bundleAssets } from "./consoleBundle.ts"
import { noticesOf } from "./notices.ts"

const dist = path.join(root, "dist")

/** Renames the compiled entry, because the bundle takes its place. */
const renameEntry = () => {
  for (const suffix of [".js", ".js.map"]) {
    const file = path.join(dist, `main${suffix}`)
    const text = fs.readFileSync(file, "utf8")
    fs.writeFileSync(path.join(dist, `main.modules${suffix}`), text.replaceAll(/\bmain\.js\b/g, "main.modules.js"))
    fs.rmSync(file)
  }
}

/** Writes the page of the console, and returns what is in it. */
const writeConsole = async () => {
  const { assets, metafile } = await bundleAssets(path.join(root, "console"))
  for (const [name, { bytes }] of assets) {
    const file = path.join(dist, "console", name)
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, bytes)
  }
  return metafile
}

fs.rmSync(dist, { recursive: true, force: true })
execFileSync(process.execPath, [path.join(root, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.build.json"], {
  cwd: root,
  stdio: "inherit"
})
renameEntry()
const metafile = await bundle(path.join(dist, "main.js"))
const script = await writeDocsScript(dist)
const page = await writeConsole()
fs.writeFileSync(path.join(dist, "THIRD-PARTY-NOTICES.txt"), noticesOf(metafile, page, script))
