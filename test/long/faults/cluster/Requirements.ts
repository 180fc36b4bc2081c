/** What a run needs of the machine. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"

/** The programs of the oldest installed server that the gateway supports. */
export const postgresDirectory = [15, 16, 17, 18].map((version) => `/usr/lib/postgresql/${version}/bin`)
  .find((directory) => fs.existsSync(directory)) ?? "/usr/lib/postgresql/15/bin"

/** Programs, by the Debian package that has each. */
const programs: Readonly<Record<string, string>> = {
  [`${postgresDirectory}/postgres`]: "postgresql",
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
  const packages = [...new Set(missing)]
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
