/** CPU time and memory of processes, from `/proc` (Linux). */
import * as fs from "node:fs"

/**
 * Fields of `/proc/<pid>/stat` after the command, which may hold spaces: 1 is the parent, 11 and 12 the CPU time, 13
 * and 14 that of children that have ended.
 */
const statOf = (pid: number | string): ReadonlyArray<string> => {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8")
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")
}

/** The kernel counts in hundredths of a second. */
const microseconds = (ticks: string | undefined) => Number(ticks) * 10_000

const cpuIn = (fields: ReadonlyArray<string>) => microseconds(fields[11]) + microseconds(fields[12])

/** CPU time that a process has used, in microseconds. */
export const cpuOf = (pid: number): number => cpuIn(statOf(pid))

/** CPU time that the only thread of a process has used, in nanoseconds: for calls that take less than a hundredth of a second. */
export const cpuNanosecondsOf = (pid: number): number =>
  Number(fs.readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0])

/** CPU time that the children of a process have used, in microseconds. */
export const cpuOfChildren = (pid: number): number => {
  const parent = statOf(pid)
  let sum = microseconds(parent[13]) + microseconds(parent[14])
  for (const entry of fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue
    try {
      const fields = statOf(entry)
      if (Number(fields[1]) === pid) sum += cpuIn(fields)
    } catch {
      // The process ended meanwhile.
    }
  }
  return sum
}

/** Peak resident memory of a process, in MiB. */
export const peakMemoryOf = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB$/m.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024
