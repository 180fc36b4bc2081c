/**
 * npm packs documents as they stand in the clone. So `prepack` resolves their links to files that it leaves out, such as tests, and `postpack`
 * puts the documents back. `package:pack` needs neither: it packs a copy.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { resolveLinks } from "./resolveLinks.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
/** The documents as they stood, in a folder that is not packed. */
const kept = path.join(root, "node_modules/.cache/packLinks.json")

const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as {
  readonly version: string
  readonly repository?: { readonly url: string }
  readonly files: ReadonlyArray<string>
}

const isPacked = (file: string): boolean =>
  [...manifest.files, "package.json", "README.md", "LICENSE"].some((name) =>
    file === name || file.startsWith(`${name}/`)
  )
  && !manifest.files.includes(`!${file}`)

const restore = () => {
  if (!fs.existsSync(kept)) return
  const documents = JSON.parse(fs.readFileSync(kept, "utf8")) as Readonly<Record<string, string>>
  for (const [file, text] of Object.entries(documents)) fs.writeFileSync(path.join(root, file), text)
  fs.rmSync(kept)
}

const resolve = () => {
  const all = fs.globSync("**/*.md", { cwd: root, exclude: ["node_modules", "dist"] }).filter(isPacked)
  const resolved = all.map((file) => {
    const text = fs.readFileSync(path.join(root, file), "utf8")
    return { file, text, changed: resolveLinks(root, file, manifest, isPacked) }
  }).filter(({ changed, text }) => changed !== text)
  fs.mkdirSync(path.dirname(kept), { recursive: true })
  fs.writeFileSync(kept, JSON.stringify(Object.fromEntries(resolved.map(({ file, text }) => [file, text]))))
  for (const { changed, file } of resolved) fs.writeFileSync(path.join(root, file), changed)
}

// An interrupted pack left them resolved.
restore()
if (process.argv[2] === "resolve") resolve()
