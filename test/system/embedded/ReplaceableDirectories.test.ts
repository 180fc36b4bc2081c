/**
 * Root starts the embedded PostgreSQL in no data directory that another user could replace. The tests place directories
 * and links below directories of other users.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { start, temporaryDirectory, timeout } from "./Supervised.ts"
import { another, directoryOf, inNamespace, isRoot, runsAs, self } from "./Users.ts"

describe.runIf(isRoot)("Root refuses a data directory that another user could replace", () => {
  const exchangeable = new RegExp(`user ${another} could exchange it`)

  const refused = Effect.fnUntraced(function*(dataDirectory: string, reason: RegExp) {
    const started = yield* Effect.result(Effect.scoped(start({ dataDirectory })))
    assert.isTrue(Result.isFailure(started))
    if (Result.isFailure(started)) assert.match(started.failure.message, reason)
  })

  it.live("because it belongs to root, below a directory of that user", () =>
    Effect.gen(function*() {
      const home = yield* directoryOf(another)
      const dataDirectory = path.join(home, "data")
      fs.mkdirSync(dataDirectory, { mode: 0o700 })
      yield* refused(dataDirectory, exchangeable)
      assert.deepStrictEqual(fs.readdirSync(dataDirectory), [])
    }), timeout)

  it.live("because root would create it in a directory of root below one of that user", () =>
    Effect.gen(function*() {
      const home = yield* directoryOf(another)
      fs.mkdirSync(path.join(home, "roots"))
      yield* refused(path.join(home, "roots", "data"), exchangeable)
      assert.deepStrictEqual(fs.readdirSync(path.join(home, "roots")), [])
    }), timeout)

  it.live("because a symbolic link of that user leads to it, at any place", () =>
    Effect.gen(function*() {
      const [home, roots] = [yield* directoryOf(another), yield* temporaryDirectory]
      for (const target of [roots, path.relative(home, roots)]) {
        const link = path.join(home, `link-${target.length}`)
        fs.symlinkSync(target, link)
        fs.lchownSync(link, another, another)
        for (const dataDirectory of [link, path.join(link, "data")]) {
          yield* refused(dataDirectory, exchangeable)
        }
      }
      assert.deepStrictEqual(fs.readdirSync(roots), [])
    }), timeout)

  it.live("because a link in the shared temporary directory leads to it", () =>
    Effect.gen(function*() {
      const [shared, roots] = [yield* temporaryDirectory, yield* temporaryDirectory]
      fs.chmodSync(shared, 0o1777)
      const link = path.join(shared, "link")
      fs.symlinkSync(roots, link)
      fs.lchownSync(link, another, another)
      yield* refused(link, exchangeable)
      assert.deepStrictEqual(fs.readdirSync(roots), [])
    }), timeout)

  it.live("because two users own directories above it", () =>
    Effect.gen(function*() {
      const home = yield* directoryOf(another)
      const dataDirectory = path.join(home, "data")
      fs.mkdirSync(dataDirectory, { mode: 0o700 })
      fs.chownSync(dataDirectory, another + 1, another + 1)
      yield* refused(dataDirectory, exchangeable)
    }), timeout)

  it.live(
    "because other users may write to it, or to a directory above it that is not sticky",
    () =>
      Effect.gen(function*() {
        const above = yield* temporaryDirectory
        const dataDirectory = path.join(above, "data")
        fs.mkdirSync(dataDirectory)
        for (const [mode, group] of [[0o757, 0], [0o775, another], [0o1777, 0]] as const) {
          fs.chownSync(dataDirectory, 0, group)
          fs.chmodSync(dataDirectory, mode)
          yield* refused(dataDirectory, /other users may write/i)
        }
        fs.chmodSync(dataDirectory, 0o700)
        fs.chmodSync(above, 0o777)
        yield* refused(dataDirectory, /other users may write/)
        assert.deepStrictEqual(fs.readdirSync(dataDirectory), [])
      }),
    timeout
  )
})

/** Prints the owner of a data directory, as root of a user namespace that maps one user. */
const namespaced = (dataDirectory: string) => {
  const [program = "", ...args] = inNamespace
  const script = `
    import { Effect } from "effect"
    import { ownerOf } from "${new URL("../../../src/node/embedded/DataDirectory.ts", import.meta.url).href}"
    console.log(process.geteuid(), (await Effect.runPromise(ownerOf(${JSON.stringify(dataDirectory)}))).uid)
  `
  return spawnSync(program, [...args, process.execPath, "--input-type=module", "-e", script], {
    encoding: "utf8",
    ...isRoot && { uid: another, gid: another }
  })
}

describe.runIf(runsAs(another, ...inNamespace, process.execPath, "--version"))("Root of a user namespace", () => {
  it.live(
    "treats the users outside of the namespace, who own the directories above, as root of the machine",
    () =>
      Effect.gen(function*() {
        const dataDirectory = yield* directoryOf(isRoot ? another : self)
        const { stderr, stdout } = namespaced(dataDirectory)
        assert.strictEqual(stdout, "0 0\n", stderr)
      }),
    timeout
  )
})
