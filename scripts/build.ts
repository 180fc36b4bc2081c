/**
 * `npm run build`: writes `dist`. It holds the compiled modules with their types, and the program (`main.js`), which is one file
 * that needs no package. `main.modules.js` is the same program as modules.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { bundle, root, writeDocsScript } from "./bundle.ts"
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

fs.rmSync(dist, { recursive: true, force: true })
execFileSync(process.execPath, [path.join(root, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.build.json"], {
  cwd: root,
  stdio: "inherit"
})
renameEntry()
const metafile = await bundle(path.join(dist, "main.js"))
const script = await writeDocsScript(dist)
fs.writeFileSync(path.join(dist, "THIRD-PARTY-NOTICES.txt"), noticesOf(metafile, script))
