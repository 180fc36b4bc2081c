/**
 * The gateway's command as users run it: the file that `bin` in package.json names, built if it is missing or older
 * than its sources.
 */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import manifest from "../../package.json" with { type: "json" }
import { say } from "./report.ts"
import { existingFile, fail, flag, text } from "./usage.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** What the build reads. */
const inputs = ["src", "migrations", "scripts", "package.json", "package-lock.json", "tsconfig.build.json"]

/** The last change of a file or of anything in a directory, in milliseconds. */
const changedAt = (file: string): number => {
  const stat = fs.statSync(file)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(stat.mtimeMs, ...fs.readdirSync(file).map((name) => changedAt(path.join(file, name))))
}

/** `src/main.ts`, which Node runs without a build. */
const sourceCommand = path.join(root, "src/main.ts")

/** The options that choose the command and the database of a benchmark. */
export const commandOptions = {
  sources: flag("Runs src/main.ts instead of the shipped command, which is built first if its sources are newer"),
  command: existingFile("Runs this file instead of the shipped command"),
  keep: text("Keeps the seeded database there, and uses it again in the next run", {
    takes: "DIRECTORY",
    default: null
  })
}

/** The chosen command; null for the shipped one. */
export const commandOf = (
  { command, sources }: { readonly command: string | null; readonly sources: boolean }
): string | null => {
  if (sources && command !== null) return fail("specify at most one of --sources and --command")
  return sources ? sourceCommand : command === null ? null : path.resolve(command)
}

/** Path of the shipped command. It is built first if the sources are newer. */
export const shippedCommand: Effect.Effect<string> = Effect.gen(function*() {
  const file = path.join(root, manifest.bin["financial-agents-gateway"])
  const isFresh = fs.existsSync(file)
    && inputs.every((input) => changedAt(path.join(root, input)) <= fs.statSync(file).mtimeMs)
  if (isFresh) return file
  yield* say("Building …")
  const { status, stderr, stdout } = spawnSync("npm", ["run", "build"], { cwd: root, encoding: "utf8" })
  if (status !== 0) return yield* Effect.die(new Error(`npm run build failed:\n${stdout}${stderr}`))
  return file
})
