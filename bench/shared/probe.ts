/**
 * Loaded into a Node server by `--import`: answers each connection to a socket with the memory of the process and the
 * time that it has spent on garbage collection. It is not loaded in measured rounds.
 *
 * It uses no channel of `fork`: a command that replaces its process at the start (`execve`) would lose the channel.
 */
import * as fs from "node:fs"
import { createServer } from "node:net"
import { PerformanceObserver } from "node:perf_hooks"
import { type ProbeAnswer, socketOf } from "./probeAnswer.ts"

let garbage = 0
const add = (entries: ReadonlyArray<{ readonly duration: number }>) => {
  for (const { duration } of entries) garbage += duration
}

const observer = new PerformanceObserver((list) => add(list.getEntries()))
observer.observe({ entryTypes: ["gc"] })

const server = createServer((connection) => {
  add(observer.takeRecords())
  const { heapUsed, rss } = process.memoryUsage()
  const answer: ProbeAnswer = { garbage, rss: rss / 2 ** 20, heapUsed: heapUsed / 2 ** 20 }
  connection.end(JSON.stringify(answer))
})
const socket = socketOf(process.pid)
// The socket of a process that this one replaced, or of an earlier one with the same id.
fs.rmSync(socket, { force: true })
// It does not keep the process alive.
server.listen(socket).unref()
