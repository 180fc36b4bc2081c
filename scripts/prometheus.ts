/**
 * `npm run prometheus:check`: promtool checks the example configuration and the alerts, and runs their tests. It is the program of
 * Debian's package prometheus.
 */
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const cwd = fileURLToPath(new URL("../deploy/prometheus", import.meta.url))

const steps = [
  ["check", "config", "prometheus.yml"],
  ["check", "rules", "alerts.yml"],
  ["test", "rules", "alerts.test.yml"]
]

for (const args of steps) {
  const { error, status } = spawnSync("promtool", args, { cwd, stdio: "inherit" })
  if (error !== undefined) {
    const isMissing = "code" in error && error.code === "ENOENT"
    process.stderr.write(
      isMissing ? "error: promtool is missing: install Debian's package prometheus\n" : `error: ${error.message}\n`
    )
    process.exit(1)
  }
  if (status !== 0) process.exit(1)
}
