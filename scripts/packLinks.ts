/**
 * npm packs documents as they stand in the clone. So `prepack` resolves their links to files that it leaves out, such as tests, and `postpack`
 * puts the documents back. npm runs no `postpack` after a pack that failed, so a guard puts them back when npm has ended. `package:pack` needs
 * neither: it packs a copy.
 */
import { execFileSync, spawn } from "node:child_process"
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

/** Puts the documents back: those that this process of npm resolved, or any. */
const restore = (npm?: number) => {
  if (!fs.existsSync(kept)) return
  const { by, documents } = JSON.parse(fs.readFileSync(kept, "utf8")) as Kept
  if (npm !== undefined && by !== npm) return
  for (const [file, text] of Object.entries(documents)) fs.writeFileSync(path.join(root, file), text)
  fs.rmSync(kept, { force: true })
}

/** The text of each document, and the process of npm that packs. Null: npm does not run this. */
interface Kept {
  readonly by: number | null
  readonly documents: Readonly<Record<string, string>>
}

/** The process of npm. It runs scripts in a shell, which may have replaced itself by this process. */
const findNpm = (): number | null => {
  const ask = (pid: number, what: "args" | "ppid") =>
    execFileSync("ps", ["-o", `${what}=`, "-p", String(pid)], { encoding: "utf8" }).trim()
  if (process.env["npm_command"] !== "pack" && process.env["npm_command"] !== "publish") return null
  const parents = [process.ppid, Number(ask(process.ppid, "ppid"))]
  return parents.find((pid) => /^npm |\bnpm(?:-cli\.js)? (?:pack|publish)\b/.test(ask(pid, "args"))) ?? null
}

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Waits for the end of npm, in a process of its own. */
const guard = (npm: number) => {
  if (isRunning(npm)) setTimeout(guard, 100, npm)
  else restore(npm)
}

const resolve = () => {
  const all = fs.globSync("**/*.md", { cwd: root, exclude: ["node_modules", "dist"] }).filter(isPacked)
  const resolved = all.map((file) => {
    const text = fs.readFileSync(path.join(root, file), "utf8")
    return { file, text, changed: resolveLinks(root, file, manifest, isPacked) }
  }).filter(({ changed, text }) => changed !== text)
  fs.mkdirSync(path.dirname(kept), { recursive: true })
  const by = findNpm()
  const documents = Object.fromEntries(resolved.map(({ file, text }) => [file, text]))
  fs.writeFileSync(kept, JSON.stringify({ by, documents } satisfies Kept))
  if (by !== null) {
    spawn(process.execPath, [fileURLToPath(import.meta.url), "guard", String(by)], { detached: true, stdio: "ignore" })
      .unref()
  }
  for (const { changed, file } of resolved) fs.writeFileSync(path.join(root, file), changed)
}

const [, , task, npm] = process.argv
if (task === "guard") guard(Number(npm))
else {
  // An interrupted pack left them resolved.
  restore()
  if (task === "resolve") resolve()
}
