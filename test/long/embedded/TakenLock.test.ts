/**
 * No other user can stop the embedded PostgreSQL from starting, and one process at a time owns a data directory. The
 * tests take names, and end processes that hold the lock in every way.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import * as readline from "node:readline"
import { tryLock, waitForLock } from "../../../src/node/embedded/System.ts"
import { listening } from "../../fixtures/http/listening.ts"
import { programOf } from "../../fixtures/processes/CommandLine.ts"
import { until } from "../../fixtures/until.ts"
import { assertAnswers, preparedDirectory, start, temporaryDirectory, timeout } from "./Supervised.ts"

const isRoot = process.geteuid?.() === 0
const onLinux = process.platform === "linux"
const another = 12345

describe("Another user", () => {
  it.live.runIf(onLinux)(
    "does not stop the start by listening on an abstract socket with a predictable name",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* preparedDirectory
        const hash = createHash("sha256").update(dataDirectory).digest("hex").slice(0, 32)
        yield* listening(net.createServer(), { path: `\0financial-agents-gateway-${hash}` })
        yield* assertAnswers(yield* start({ dataDirectory }))
      }),
    timeout
  )

  it.live("cannot open the lock file of the data directory", () =>
    Effect.gen(function*() {
      const { dataDirectory } = yield* start({ dataDirectory: path.join(yield* temporaryDirectory, "data") })
      const lock = path.join(dataDirectory, "lock")
      assert.strictEqual(fs.statSync(dataDirectory).mode & 0o777, 0o700)
      assert.strictEqual(fs.statSync(lock).mode & 0o777, 0o600)
      if (!isRoot) return
      // Even if the directory admits the user.
      for (const directory of [dataDirectory, path.dirname(dataDirectory)]) fs.chmodSync(directory, 0o755)
      const attempt = spawnSync("/bin/sh", ["-c", `: < "$1"`, "sh", lock], { uid: another, gid: another })
      assert.notStrictEqual(attempt.status, 0)
    }), timeout)
})

/** Whether the lock is held by a process, this one included. */
const isHeld = (directory: string) => Effect.map(Effect.scoped(tryLock(directory)), (taken) => !taken)

const endings = ["SIGKILL", "close", "exit", "SIGTERM"] as const

/** A process that waits for the lock, with its output and a way to end it. */
const lockHolder = (directory: string) =>
  Effect.acquireRelease(
    Effect.map(programOf("test/long/services/lockHolder.ts"), (program) => {
      const child = spawn(process.execPath, [program, directory], {
        stdio: ["pipe", "pipe", "inherit"]
      })
      const said: Array<string> = []
      readline.createInterface({ input: child.stdout }).on("line", (line) => said.push(line))
      const end = (ending: typeof endings[number]) => {
        if (ending === "SIGKILL" || ending === "SIGTERM") child.kill(ending)
        else child.stdin.end(ending === "exit" ? "exit" : "")
      }
      return { pid: child.pid ?? 0, said, end, hasEnded: () => child.exitCode !== null || child.signalCode !== null }
    }),
    ({ end, hasEnded }) => Effect.andThen(Effect.sync(() => end("SIGKILL")), until(hasEnded))
  )

describe("The lock of a data directory", () => {
  it.live(
    "has one holder at a time, and passes to the next process when the holder ends in any way",
    () =>
      Effect.gen(function*() {
        const directory = yield* temporaryDirectory
        const holders = yield* Effect.all([...endings, ...endings].map(() => lockHolder(directory)))
        yield* until(() => holders.every(({ said }) => said[0] === "waits"))
        let waiting = holders
        for (const ending of [...endings, ...endings]) {
          yield* until(() => waiting.some(({ said }) => said.length > 1))
          const holding = waiting.filter(({ said }) => said.length > 1)
          assert.deepStrictEqual(holding.map(({ said }) => said[1]), ["held"])
          assert.isTrue(yield* isHeld(directory))
          waiting = waiting.filter((holder) => holder !== holding[0])
          holding[0]?.end(ending)
        }
        yield* until(() => holders.every(({ hasEnded }) => hasEnded()))
        assert.isFalse(yield* isHeld(directory))
      }),
    timeout
  )

  it.live(
    "is separate from that of a copy of the directory, and is the same on every path to it",
    () =>
      Effect.gen(function*() {
        const [directory, copy] = [yield* temporaryDirectory, yield* temporaryDirectory]
        assert.isTrue(yield* tryLock(directory))
        execFileSync("cp", ["-a", `${directory}/.`, copy])
        assert.isFalse(yield* isHeld(copy))
        const link = path.join(copy, "link")
        fs.symlinkSync(directory, link)
        assert.isTrue(yield* isHeld(link))
      }),
    timeout
  )

  it.live(
    "is taken on the new directory by a waiting process when the old directory was deleted",
    () =>
      Effect.gen(function*() {
        const directory = path.join(yield* temporaryDirectory, "data")
        fs.mkdirSync(directory)
        assert.isTrue(yield* tryLock(directory))
        const waiting = yield* lockHolder(directory)
        yield* until(() => waiting.said.length > 0)
        // The new one is there before the old one is deleted: a waiting process fails without any.
        fs.mkdirSync(`${directory}.new`)
        fs.renameSync(directory, `${directory}.old`)
        fs.renameSync(`${directory}.new`, directory)
        fs.rmSync(`${directory}.old`, { recursive: true })
        yield* until(() => waiting.said[1] === "held")
        assert.isTrue(yield* isHeld(directory))
      }),
    timeout
  )

  it.live("is not held after a wait that was interrupted", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      yield* Effect.scoped(Effect.gen(function*() {
        assert.isTrue(yield* tryLock(directory))
        const given = yield* Effect.scoped(waitForLock(directory)).pipe(Effect.timeoutOption("50 millis"))
        assert.isTrue(Option.isNone(given))
      }))
      assert.isFalse(yield* isHeld(directory))
    }), timeout)
})
