/** Builds and starts the Go peer. Debian's packages contain Go, pgx and what pgx needs, so nothing is downloaded. */
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { type DatabaseAddress, stopProcess } from "../shared/processes.ts"

/** How to install what the Go peer needs. */
export const goInstallation = "apt-get install golang-go golang-github-jackc-pgx-v4-dev"

const gopath = "/usr/share/gocode"

/** Whether Go and the sources of pgx are installed. */
export const hasGo = (): boolean =>
  spawnSync("go", ["version"]).status === 0 && fs.existsSync(`${gopath}/src/github.com/jackc/pgx/v4`)

/** Builds the peer, and returns the path of its binary. */
export const buildGoPeer: Effect.Effect<string> = Effect.suspend(() => {
  const sources = fileURLToPath(new URL("go", import.meta.url))
  const binary = fileURLToPath(new URL("../../node_modules/.cache/bench/go-peer", import.meta.url))
  fs.mkdirSync(path.dirname(binary), { recursive: true })
  const env = { ...process.env, GO111MODULE: "off", GOPATH: gopath }
  const { status, stderr } = spawnSync("go", ["build", "-o", binary, "."], { cwd: sources, env, encoding: "utf8" })
  return status === 0 ? Effect.succeed(binary) : Effect.die(new Error(`go build failed:\n${stderr}`))
})

const firstLine = (stream: NodeJS.ReadableStream) =>
  Effect.callback<string>((resume) => {
    stream.once("data", (chunk: Buffer) => resume(Effect.succeed(chunk.toString("utf8"))))
    stream.once("end", () => resume(Effect.die(new Error("the Go peer ended while it started"))))
  })

/** Starts the binary, and stops it when the scope closes. */
export const startGoPeer = Effect.fnUntraced(function*(binary: string, database: DatabaseAddress) {
  const child = yield* Effect.acquireRelease(
    // Its standard input stays open for as long as this process lives.
    Effect.sync(() => spawn(binary, [JSON.stringify(database)], { stdio: ["pipe", "pipe", "inherit"] })),
    stopProcess
  )
  const { port } = JSON.parse(yield* firstLine(child.stdout)) as { readonly port: number }
  return { pid: child.pid!, port }
})
