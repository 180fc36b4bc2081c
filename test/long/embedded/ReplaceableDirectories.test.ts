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

interface Place {
  readonly title: string
  /** Prepares a data directory for root to refuse. */
  readonly make: (home: string, roots: string) => string
}

const directory = (place: string, mode = 0o700, group = 0): string => {
  fs.mkdirSync(place)
  fs.chownSync(place, 0, group)
  fs.chmodSync(place, mode)
  return place
}

const linkOf = (owner: number, place: string, target: string): string => {
  fs.symlinkSync(target, place)
  fs.lchownSync(place, owner, owner)
  return place
}

/** `home` belongs to another user, `roots` to root. */
const exchangeable: ReadonlyArray<Place> = [
  { title: "it belongs to that user", make: (home) => home },
  { title: "it is below a directory of that user", make: (home) => directory(path.join(home, "data")) },
  {
    title: "root would create it below a directory of that user",
    make: (home) => path.join(directory(path.join(home, "roots")), "data")
  },
  {
    title: "a symbolic link of that user leads to it, also by a relative path",
    make: (home, roots) => linkOf(another, path.join(home, "link"), path.relative(home, roots))
  },
  {
    title: "a symbolic link of that user leads to the directory above it",
    make: (home, roots) => path.join(linkOf(another, path.join(home, "link"), roots), "data")
  },
  {
    title: "a symbolic link of root leads to one of that user",
    make: (home, roots) => linkOf(0, path.join(roots, "first"), linkOf(another, path.join(home, "link"), roots))
  },
  {
    title: "a link in a shared directory leads to it",
    make: (_, roots) => linkOf(another, path.join(directory(path.join(roots, "shared"), 0o1777), "link"), roots)
  }
]

const writable: ReadonlyArray<Place> = [
  { title: "others may write to it", make: (_, roots) => directory(path.join(roots, "data"), 0o757) },
  { title: "another group may write to it", make: (_, roots) => directory(path.join(roots, "data"), 0o775, another) },
  { title: "others may add names to it", make: (_, roots) => directory(path.join(roots, "data"), 0o1777) },
  {
    title: "others may write to the directory above it",
    make: (_, roots) => directory(path.join(directory(path.join(roots, "above"), 0o777), "data"))
  }
]

const refusals = [
  ...exchangeable.map((place) => ({ ...place, reason: new RegExp(`user ${another} could exchange it`) })),
  ...writable.map((place) => ({ ...place, reason: /other users may write/ }))
]

describe.runIf(isRoot)("Root refuses a data directory that another user could replace, because", () => {
  for (const { make, reason, title } of refusals) {
    it.live(title, () =>
      Effect.gen(function*() {
        const [home, roots] = [yield* directoryOf(another), yield* temporaryDirectory]
        const dataDirectory = make(home, roots)
        const names = () => [home, roots].map((place) => fs.readdirSync(place, { recursive: true }))
        const before = names()
        const started = yield* Effect.result(Effect.scoped(start({ dataDirectory })))
        assert.deepStrictEqual(names(), before)
        assert.isTrue(Result.isFailure(started))
        if (Result.isFailure(started)) assert.match(started.failure.message, reason)
      }), timeout)
  }
})

/** Opens a data directory as root of a user namespace that maps one user. */
const namespaced = (dataDirectory: string) => {
  const [program = "", ...args] = inNamespace
  const script = `
    import { Effect } from "effect"
    import { openDataDirectory } from "${new URL("../../../src/node/embedded/System.ts", import.meta.url).href}"
    console.log(process.geteuid(), await Effect.runPromise(openDataDirectory(${JSON.stringify(dataDirectory)})))
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
        assert.strictEqual(stdout, `0 ${dataDirectory}\n`, stderr)
      }),
    timeout
  )
})
