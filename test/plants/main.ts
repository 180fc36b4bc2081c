/**
 * `npm run plants`: plants mistakes in a copy of the repository, one after the other, and shows that a test finds each of them.
 *
 *     npm run plants -- --changed
 *     npm run plants -- --subject claims --jobs 2
 *
 * `found`: a named test failed. `survived`: all of them passed. `invalid`: nothing is shown, because the source did not load, or the
 * tests fail without the plant as well. Exits with 1 unless all plants were found.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { choices, fail, flag, readOptions, text, whole } from "../../bench/shared/usage.ts"
import { LocalPostgres } from "../../src/node/embedded/LocalPostgres.ts"
import { checkTable, type NamedTests, type Plant } from "./Plant.ts"
import { isOf, runTests } from "./runTests.ts"
import { subjects } from "./subjects.ts"

const values = readOptions(import.meta.url, {
  check: flag("Only checks that each old text occurs exactly once in its file, and that the named tests exist"),
  changed: text("Plants whose file or tests differ from this commit (HEAD without REF)", {
    takes: "[REF]",
    default: null,
    bare: "HEAD"
  }),
  subject: choices("Plants of this subject", Object.keys(subjects)),
  only: text("Plants with this text in their rule or file", { takes: "TEXT", default: null }),
  jobs: whole("Plants at the same time", { from: 1, to: 64, default: 1 })
})

const root = fileURLToPath(new URL("../..", import.meta.url))

const git = (...args: ReadonlyArray<string>) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 26, stdio: ["ignore", "pipe", "ignore"] })

const filesChangedSince = (ref: string): ReadonlyArray<string> => {
  try {
    return git("diff", "--name-only", "-z", ref, "--").split("\0")
  } catch {
    return fail(`--changed names no commit: ${ref}`)
  }
}

const all = Object.entries(subjects).flatMap(([subject, plants]) => plants.map((plant) => ({ subject, plant })))
const problems = checkTable(root, all.map(({ plant }) => plant))
if (values.check || problems.length > 0) {
  process.stdout.write([...problems, `${all.length} plants, ${problems.length} problems`].join("\n") + "\n")
  process.exit(problems.length === 0 ? 0 : 1)
}

const { only, subject: wanted } = values
const changed = values.changed === null ? null : filesChangedSince(values.changed)
const chosen = all.filter(({ plant: { file, rule, tests }, subject }) =>
  wanted.includes(subject) &&
  (changed === null ||
    [file, ...tests.flatMap(({ path, titles = path }) => [path, titles])].some((name) => changed.includes(name))) &&
  (only === null || [rule, file].some((name) => name.includes(only)))
)

if (chosen.length === 0) {
  process.stdout.write("No plant is chosen\n")
  process.exit(0)
}

/** A copy of the files that Git knows or would add, with the packages of the repository. */
const makeCopy = Effect.acquireRelease(
  Effect.sync(() => {
    const copy = fs.mkdtempSync(path.join(os.tmpdir(), "plants-"))
    for (const file of git("ls-files", "-coz", "--exclude-standard").split("\0")) {
      if (file !== "" && fs.existsSync(path.join(root, file))) fs.cpSync(path.join(root, file), path.join(copy, file))
    }
    fs.symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"))
    return copy
  }),
  (copy) => Effect.sync(() => fs.rmSync(copy, { recursive: true, force: true }))
)

/** One server for all runs: each start costs more than most of the tests. */
const startServer = Effect.gen(function*() {
  const dataDirectory = yield* Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "plants-postgres-"))),
    (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
  )
  const context = yield* Layer.build(LocalPostgres.layer({ dataDirectory }))
  const { database, port, socketDirectory, username } = Context.get(context, LocalPostgres)
  return `postgres://${username}@localhost:${port}/${database}?host=${encodeURIComponent(socketDirectory)}`
})

type Result = "found" | "survived" | "invalid"

const firstLine = (message: string) => message.trim().split("\n")[0]!

/** The reason why the tests cannot find anything. Null: they pass without a plant. */
const runControl = Effect.fnUntraced(function*(copy: string, env: NodeJS.ProcessEnv) {
  const tests = chosen.flatMap(({ plant }) => plant.tests)
  const failed: Array<string> = []
  const passed: Array<string> = []
  for (
    const part of [
      tests.filter(({ title }) => title !== undefined),
      tests.filter(({ title }) => title === undefined)
    ]
  ) {
    if (part.length === 0) continue
    const ended = yield* runTests(copy, part, env, false)
    failed.push(...ended.failed)
    passed.push(...ended.passed)
  }
  return (named: NamedTests): string | null => {
    const broken = failed.find((name) => isOf(named, name))
    if (broken !== undefined) return `fails without the plant: ${broken}`
    return passed.some((name) => isOf(named, name)) ? null : `no test ran: ${named.path} ${named.title ?? ""}`
  }
})

const plantIn = Effect.fnUntraced(function*(copy: string, { file, from, tests, to }: Plant, env: NodeJS.ProcessEnv) {
  const target = path.join(copy, file)
  const source = fs.readFileSync(target, "utf8")
  fs.writeFileSync(target, source.replace(from, () => to))
  const { error, failed } = yield* Effect.ensuring(
    runTests(copy, tests, env, true),
    Effect.sync(() => fs.writeFileSync(target, source))
  )
  if (failed.length > 0) return { result: "found", note: failed[0]! } as const
  return error === null
    ? { result: "survived", note: "" } as const
    : { result: "invalid", note: firstLine(error) } as const
})

const main = Effect.gen(function*() {
  const copies = yield* Effect.all(Array.from({ length: Math.min(values.jobs, chosen.length) }, () => makeCopy))
  const needsServer = chosen.some(({ plant }) => plant.tests.some(({ path }) => !path.startsWith("test/unit/")))
  const env = { ...process.env, ...needsServer ? { TEST_DATABASE_URL: yield* startServer } : {} }
  const reasonAgainst = yield* runControl(copies[0]!, env)
  const counts: Record<Result, number> = { found: 0, survived: 0, invalid: 0 }
  yield* Effect.forEach(chosen, ({ plant, subject }) =>
    Effect.gen(function*() {
      const reason = plant.tests.map(reasonAgainst).find((found) => found !== null) ?? null
      const copy = copies.pop()!
      const { note, result } = reason === null
        ? yield* Effect.ensuring(plantIn(copy, plant, env), Effect.sync(() => copies.push(copy)))
        : { result: "invalid", note: reason } as const
      if (reason !== null) copies.push(copy)
      counts[result]++
      process.stdout.write(`${result.padEnd(9)} ${subject.padEnd(14)} ${plant.rule}\n`)
      if (result !== "found") process.stdout.write(`${" ".repeat(25)}${plant.file}${note === "" ? "" : `: ${note}`}\n`)
    }), { concurrency: values.jobs })
  process.stdout.write(`${counts.found} found, ${counts.survived} survived, ${counts.invalid} invalid\n`)
  if (counts.found < chosen.length) process.exitCode = 1
}).pipe(Effect.scoped)

NodeRuntime.runMain(main)
