/**
 * `npm run prometheus:check`: promtool checks the example configuration, the alerts and the expressions of the dashboards, and runs
 * the tests of the alerts. It is a program of Debian's package prometheus.
 */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const deploy = fileURLToPath(new URL("../deploy", import.meta.url))

/** Runs promtool. The process ends with 1 if it fails or is missing. */
const promtool = (...args: ReadonlyArray<string>): void => {
  const { error, status } = spawnSync("promtool", args, { cwd: path.join(deploy, "prometheus"), stdio: "inherit" })
  if (status === 0) return
  if (error !== undefined) {
    const isMissing = "code" in error && error.code === "ENOENT"
    process.stderr.write(
      isMissing ? "error: promtool is missing: install Debian's package prometheus\n" : `error: ${error.message}\n`
    )
  }
  process.exit(1)
}

interface Dashboard {
  readonly panels: ReadonlyArray<{ readonly targets?: ReadonlyArray<{ readonly expr: string }> }>
}

/** The expressions of the dashboards, with values for Grafana's variables. */
const expressions = fs.globSync(path.join(deploy, "grafana/*.json")).flatMap((file) =>
  (JSON.parse(fs.readFileSync(file, "utf8")) as Dashboard).panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr.replaceAll("$__rate_interval", "1m").replaceAll(/"\$\w+"/g, "\".*\""))
  )
)

promtool("check", "config", "prometheus.yml")
promtool("check", "rules", "alerts.yml")
promtool("test", "rules", "alerts.test.yml")

// promtool has no check of single expressions: they are checked as recording rules.
const directory = fs.mkdtempSync(path.join(os.tmpdir(), "prometheus-check-"))
process.on("exit", () => fs.rmSync(directory, { recursive: true }))
const rules = expressions.map((expr, at) => ({ record: `dashboards:${at}`, expr }))
const file = path.join(directory, "dashboards.yml")
fs.writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboards", rules }] }))
promtool("check", "rules", file)
