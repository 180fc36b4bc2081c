/** What a run needs of the machine. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"

export const postgresDirectory = "/usr/lib/postgresql/15/bin"

/** Programs, by the Debian package that has each. */
const programs: Readonly<Record<string, string>> = {
  [`${postgresDirectory}/postgres`]: "postgresql-15",
  patroni: "patroni",
  etcd: "etcd-server",
  haproxy: "haproxy",
  ip: "iproute2",
  tc: "iproute2",
  ps: "procps",
  unshare: "util-linux"
}

const isThere = (program: string): boolean =>
  program.startsWith("/")
    ? fs.existsSync(program)
    : (process.env["PATH"] ?? "").split(":").some((directory) => fs.existsSync(`${directory}/${program}`))

/** What is missing, in one line. Null: nothing. */
export const missingRequirement = (): string | null => {
  if (process.platform !== "linux") return "Linux is required: the run uses network namespaces"
  const missing = Object.entries(programs).flatMap(([program, name]) => isThere(program) ? [] : [name])
  const patroniModules = ["python3-etcd"].filter(() => !fs.existsSync("/usr/lib/python3/dist-packages/etcd"))
  const packages = [...new Set([...missing, ...patroniModules])]
  if (packages.length > 0) {
    return `packages are missing: apt-get install --no-install-recommends ${packages.join(" ")}`
  }
  if (process.getuid?.() !== 0) return "run it as root: it creates network namespaces"
  try {
    execFileSync("unshare", ["--net", "--mount", "--pid", "--fork", "true"], { stdio: "ignore" })
  } catch {
    return "this machine allows no namespaces: run it as root outside of a container, or in a privileged one"
  }
  return null
}
