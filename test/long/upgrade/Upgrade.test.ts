/**
 * An upgrade needs no outage: servers and workers of the previous version work on the new schema beside those of this version. The
 * tests run both as processes, with the documented roles.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll, inject } from "vitest"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { rolesAlone } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, launch, launchOf, outputOf, runOf } from "../../fixtures/processes/CommandLine.ts"

/** Milliseconds: the tests start many processes. */
const timeout = 300_000

const commitFile = "test/long/upgrade/previousVersion.txt"

/** The bundle that `CommandBundle` makes, of the sources in the working directory. */
const bundleScript = `
  import { pathToFileURL } from "node:url"
  const { bundle } = await import(pathToFileURL("scripts/bundle.ts").href)
  await bundle("command.mjs", { plugins: [], urlOf: (source) => JSON.stringify(pathToFileURL(source).href) })`

const previousCommit = (): string => fs.readFileSync(commitFile, "utf8").trim()

/** Writes the version of a commit into the folder, and returns the path of its program. */
const programAt = (commit: string, folder: string): string => {
  const archive = path.join(folder, "previous.tar")
  try {
    execFileSync("git", ["archive", "--output", archive, commit], { stdio: "pipe" })
  } catch (cause) {
    throw new Error(
      `this clone lacks the previous version, ${commit} (${commitFile}). If it is shallow, run \`git fetch --unshallow\``,
      { cause }
    )
  }
  execFileSync("tar", ["-xf", archive, "-C", folder])
  fs.symlinkSync(path.resolve("node_modules"), path.join(folder, "node_modules"))
  execFileSync(process.execPath, ["--input-type=module", "--eval", bundleScript], { cwd: folder, stdio: "pipe" })
  return path.join(folder, "command.mjs")
}

let folder = ""
let previous = ""

beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "previous-"))
  previous = programAt(previousCommit(), folder)
}, timeout)

afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

/** Whether this version has migrations that the previous one lacks. */
const hasNewMigrations = () =>
  fs.readdirSync("migrations").some((name) => !fs.existsSync(path.join(folder, "migrations", name)))

interface Issued {
  readonly grant_id: string
  readonly access_token: string
}

interface Accepted {
  readonly created: boolean
  readonly operation: { readonly id: string }
}

interface Row {
  readonly id: string
  readonly state: string
  readonly claimed_by: string | null
  readonly reads: number
}

/** A database with the schema of the previous version, and both programs on it. */
const scene = Effect.gen(function*() {
  const { naming: { prefix }, runAsOwner, urlAs, asSuperuser } = yield* rolesAlone()
  const current = inject("command")
  const owner = { DATABASE_URL: urlAs("owner") }
  const writer = { DATABASE_URL: urlAs("writer") }

  /** What an operator does first: the owner migrates, and grants the privileges. */
  const migrate = Effect.fnUntraced(function*(program: string) {
    yield* outputOf(program, ["migrate"], owner)
    const statements = yield* outputOf(program, ["roles", "grant", "--prefix", prefix], {})
    yield* runAsOwner(statements.split(/;\n/).filter((text) => /GRANT|REVOKE/.test(text)))
  })
  yield* migrate(previous)

  const serve = Effect.fnUntraced(function*(program: string) {
    const port = yield* freePort
    const env = { DATABASE_URL: urlAs("reader"), PORT: String(port) }
    yield* launchOf(program, ["serve", "--no-migrate"], env, ({ stderr }) => stderr.includes("\"Listening\""))
    return `http://127.0.0.1:${port}`
  })

  const record = path.join(folder, `${prefix}.jsonl`)
  const startSandbox = Effect.map(
    launch(
      ["sandbox", "--port", "0", "--control-port", "0", "--record", record],
      {},
      ({ stderr }) => stderr.includes("\"Listening\"")
    ),
    ({ output }) => /"url":"(http:[^"]+)"/.exec(output.stderr)![1]!
  )
  const work = (program: string, workerId: string, sandbox: string) =>
    launchOf(
      program,
      ["work", "--sandbox", `bank=${sandbox}`, "--worker-id", workerId, "--concurrency", "2"],
      writer,
      ({ stderr }) => stderr.includes("\"Working\"")
    )

  const names = ["--owner", "owner", "--subject", "subject", "--client", "client", "--provider", "bank"]
  const issue = (program: string) =>
    Effect.map(outputOf(program, ["grants", "issue", ...names], writer), (text) => JSON.parse(text) as Issued)

  /** Accepts a file of requests, and yields the results in its order. */
  const acceptAll = (program: string, grant: string, keys: ReadonlyArray<string>, settleAfter: number) => {
    const line = (key: string) => {
      const payload = { sandbox: { outcome: "succeeded", settle_after_ms: settleAfter } }
      return `${JSON.stringify({ type: "payment", key, payload })}\n`
    }
    const file = path.join(folder, `${randomUUID()}.jsonl`)
    fs.writeFileSync(file, keys.map(line).join(""))
    return Effect.map(
      outputOf(program, ["operations", "accept", "--grant", grant, "--from", file], writer),
      (stdout) => stdout.trimEnd().split("\n").map((text) => JSON.parse(text) as Accepted)
    )
  }

  const rows = (ids: ReadonlyArray<string>) =>
    Effect.orDie(
      asSuperuser(SqlClient.SqlClient.use((sql) =>
        sql.unsafe<Row>("SELECT id, state, claimed_by, reads FROM operations WHERE id = ANY ($1::uuid[]) ORDER BY id", [
          ids
        ])
      ))
    )
  /** Waits until all operations are as asked. */
  const until = (ids: ReadonlyArray<string>, asked: (row: Row) => boolean) =>
    Effect.repeat(Effect.delay(rows(ids), "50 millis"), {
      until: (found) => found.length === ids.length && found.every(asked)
    })
  /** How often the bank received each operation. */
  const received = () => {
    const times = new Map<string, number>()
    for (const line of fs.readFileSync(record, "utf8").split("\n").filter((text) => text !== "")) {
      const { key } = JSON.parse(line) as { readonly key?: string }
      if (key !== undefined) times.set(key, (times.get(key) ?? 0) + 1)
    }
    return times
  }
  return { acceptAll, current, issue, migrate, received, rows, serve, startSandbox, until, work, writer }
})

/** An answer without its tokens: the same page has many. */
const withoutToken = ({ body, ...answer }: { readonly body: unknown; readonly status: number }) => ({
  ...answer,
  body: JSON.parse(
    JSON.stringify(body).replace(/"next_(?:change|page)_token":"[\w-]+"/, "\"next\":\"(sealed)\"")
  ) as unknown
})

const get = (url: string, token?: string) =>
  Effect.promise(async () => {
    const response = await fetchServed(
      url,
      token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
    )
    return { status: response.status, body: await response.json().catch(() => null) as unknown }
  })

const idsOf = (accepted: ReadonlyArray<Accepted>) => accepted.map(({ operation: { id } }) => id)

describe("The previous version", () => {
  it("is missing in a shallow clone, and the error says how to get it", () => {
    assert.throws(() => programAt("0".repeat(40), folder), /lacks the previous version, 0{40} .*git fetch --unshallow/)
  })
})

describe("An upgrade", () => {
  it.live(
    "runs servers and workers of both versions on the new schema: each operation is accepted and sent once",
    () =>
      Effect.gen(function*() {
        const { acceptAll, current, issue, migrate, received, rows, serve, startSandbox, until, work } = yield* scene
        const { access_token, grant_id } = yield* issue(previous)
        const keys = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `key-${from + n}`)
        // Before the migration: old rows stay good.
        const oldServer = yield* serve(previous)
        const before = idsOf(yield* acceptAll(previous, grant_id, keys(0, 5), 0))
        yield* migrate(current)
        const newServer = yield* serve(current)
        const servers = [oldServer, newServer]

        // Both accept the same keys at the same time.
        const [byOld, byNew] = yield* Effect.all(
          [acceptAll(previous, grant_id, keys(0, 60), 0), acceptAll(current, grant_id, keys(0, 60), 0)],
          { concurrency: 2 }
        )
        const ids = idsOf(byOld)
        assert.deepStrictEqual(idsOf(byNew), ids)
        assert.deepStrictEqual(ids.slice(0, 5), before)
        assert.strictEqual([...byOld, ...byNew].filter(({ created }) => created).length, 55)

        // A grant of either version reads at both, and both give the same answers.
        const { access_token: young } = yield* issue(current)
        for (const token of [access_token, young]) {
          const paths = [`/v1/operations/${ids[0]}`, "/v1/operations?page_size=100", "/v1/operations/changes"]
          for (const place of paths) {
            const [old, now] = yield* Effect.forEach(servers, (server) => get(server + place, token))
            assert.strictEqual(old!.status, 200, place)
            assert.deepStrictEqual(withoutToken(now!), withoutToken(old!), place)
          }
        }
        for (const server of servers) assert.strictEqual((yield* get(`${server}/readyz`)).status, 200)

        // Both claim and send.
        const sandbox = yield* startSandbox
        const both = [yield* work(previous, "old", sandbox), yield* work(current, "new", sandbox)]
        const all = [...ids]
        for (let batch = 0;; batch++) {
          const claimants = new Set(
            (yield* until(all, ({ state }) => state === "succeeded")).map((row) => row.claimed_by)
          )
          if (claimants.size === 2) break
          // One worker was faster than the other could start.
          all.push(...idsOf(yield* acceptAll(current, grant_id, keys(1000 + batch * 60, 1060 + batch * 60), 0)))
        }
        for (const { output, stop } of both) {
          assert.strictEqual(yield* stop("SIGTERM"), 0)
          assert.notMatch(output.stderr, /"level":"(?:WARN|ERROR|FATAL)"/, "no statement failed")
        }

        // What one version sent, the other follows at the bank.
        const programs = { old: previous, new: current }
        for (const [from, to] of [["old", "new"], ["new", "old"]] as const) {
          const sender = yield* work(programs[from], from, sandbox)
          const [id] = idsOf(yield* acceptAll(programs[to], grant_id, [`sent-by-${from}`], 3_600_000))
          yield* until([id!], ({ state }) => state === "submitted")
          assert.strictEqual(yield* sender.stop("SIGTERM"), 0)
          const [sent] = yield* rows([id!])
          assert.strictEqual(sent!.claimed_by, from)
          const reader = yield* work(programs[to], to, sandbox)
          yield* until([id!], ({ reads }) => reads > sent!.reads)
          yield* reader.stop("SIGTERM")
          all.push(id!)
        }

        const times = received()
        assert.sameMembers([...times.keys()], all)
        assert.deepStrictEqual([...times].filter(([, count]) => count !== 1), [])
        // The changes of both versions are one sequence.
        const [old, now] = yield* Effect.forEach(servers, (server) => get(`${server}/v1/operations/changes`, young))
        assert.deepStrictEqual(withoutToken(now!), withoutToken(old!))
      }).pipe(Effect.scoped, Effect.provide(Platform)),
    timeout
  )

  it.live(
    "waits for its owner: on the old schema a new server is not ready, and becomes ready with the migration",
    () =>
      Effect.gen(function*() {
        const { current, issue, migrate, serve, writer } = yield* scene
        const server = yield* serve(current)
        const missing = hasNewMigrations()
        assert.strictEqual((yield* get(`${server}/readyz`)).status, missing ? 503 : 200)
        // It would run on without an end where nothing is missing.
        if (missing) {
          const { code, stderr } = yield* runOf(current, ["work", "--sandbox", "bank=http://127.0.0.1:9"], writer)
          assert.strictEqual(code, 1)
          assert.include(stderr, "error: the database lacks migrations: run ")
        }
        yield* migrate(current)
        const { access_token } = yield* issue(current)
        assert.strictEqual((yield* get(`${server}/readyz`)).status, 200)
        assert.strictEqual((yield* get(`${server}/v1/operations`, access_token)).status, 200)
      }).pipe(Effect.scoped, Effect.provide(Platform)),
    timeout
  )
})
