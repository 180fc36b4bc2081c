/** Users of the machine that tests of the embedded PostgreSQL act as, and directories that belong to them. */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { temporaryDirectory } from "./Supervised.ts"

export const isRoot = process.geteuid?.() === 0
export const self = process.geteuid?.() ?? 0

/** A user without an entry in the user database. `initdb` refuses such a user, except in a user namespace. */
const unlisted = 12345

export const runsAs = (uid: number, ...[file = "", ...args]: ReadonlyArray<string>) =>
  spawnSync(file, args, isRoot ? { uid, gid: uid } : {}).status === 0

export const inNamespace = ["unshare", "--user", "--map-root-user"]

/** Another user of the machine: the listed user 65534 where user namespaces are not permitted. */
export const another = !isRoot || runsAs(unlisted, ...inNamespace, "true") ? unlisted : 65534

/** A directory in `/tmp` that belongs to a user. */
export const directoryOf = (uid: number) =>
  Effect.tap(temporaryDirectory, (directory) => Effect.sync(() => uid !== self && fs.chownSync(directory, uid, uid)))
