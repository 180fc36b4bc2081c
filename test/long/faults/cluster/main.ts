/**
 * `npm run cluster:chaos`: a cluster of three PostgreSQL servers with Patroni, etcd and HAProxy, the gateway on it, and faults while
 * clients pay and read. It judges what the clients were told, and what the provider received.
 *
 *     npm run cluster:chaos -- --faults 15
 *     npm run cluster:chaos -- --control barrier-off
 *
 * It runs as root, in namespaces of its own, which end with it. Exits with 1 if a rule is broken, and with 2 if the run could not
 * take place. With --control it exits with 0 if the judge found what the control breaks, and with 1 if it found nothing.
 */
import { Schema } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { choice, type Option, readOptions, text, unwritable, whole } from "../../../../bench/shared/usage.ts"
import { conclude } from "../kit/Figure.ts"
import { files, readEvidence } from "./History.ts"
import { judge } from "./Judge.ts"
import { allKinds, configVariable, controlNames, controls, protections, RunConfig } from "./Plan.ts"
import { tablesOf } from "./Report.ts"
import { missingRequirement } from "./Requirements.ts"

/** Several of the choices; none without the option. */
const some = <Choice extends string>(meaning: string, all: ReadonlyArray<Choice>): Option<ReadonlyArray<Choice>> => {
  const one = choice(`${meaning}; may be repeated`, all)
  return { ...one, decode: (given, flag) => given.flatMap((text) => one.decode([text], flag) ?? []) }
}

const values = readOptions(import.meta.url, {
  faults: whole("Faults, one after the other; with a control, at most as many", { from: 0, to: 100_000, default: 200 }),
  seed: text("Chooses the faults and their victims; the times depend on the machine", {
    takes: "TEXT",
    default: "cluster"
  }),
  kind: some("Only faults of this kind", allKinds),
  without: some("Leaves a protection of the gateway out", protections),
  control: choice("Breaks a premise, which the judge must find", controlNames),
  out: text("Directory of the evidence and the report, which is emptied", {
    takes: "DIRECTORY",
    default: "cluster-chaos",
    problem: unwritable
  })
})

/** Faults of a control, which ends with the first that the judge finds. */
const mostOfControl = 12

const cannot = (message: string): never => {
  process.stderr.write(`error: ${message}\n`)
  process.exit(2)
}

const missing = missingRequirement()
if (missing !== null) cannot(missing)

const out = path.resolve(values.out)
// Only what an earlier run left.
if (fs.existsSync(out) && fs.readdirSync(out).length > 0 && !fs.existsSync(path.join(out, "logs"))) {
  cannot(`--out ${values.out} has files of something else`)
}
fs.rmSync(out, { recursive: true, force: true })
fs.mkdirSync(out)
const directory = fs.mkdtempSync(
  path.join(process.env["TMPDIR"] ?? (fs.existsSync("/var/tmp") ? "/var/tmp" : os.tmpdir()), "cluster-")
)
fs.chmodSync(directory, 0o755)
const removeData = () => fs.rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })

const config = Schema.encodeSync(RunConfig)({
  directory,
  out,
  seed: values.seed,
  faults: values.control === null ? values.faults : Math.min(values.faults, mostOfControl),
  kinds: values.kind,
  without: values.without,
  control: values.control
})

/**
 * The room: the first process reaps, and the kernel ends all others with it. That also holds if this process is killed. Names and
 * addresses of its networks exist only there.
 */
const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
const init = [
  "mkdir -p /run/netns",
  "mount -t tmpfs none /run/netns",
  // Killed servers leave their shared memory there.
  "mount -t tmpfs none /dev/shm",
  `"$@" & wait $!`
].join(" && ")
const program = [process.execPath, fileURLToPath(new URL("./run.ts", import.meta.url))]
const room = spawn(
  "setpriv",
  ["--pdeathsig", "KILL", "unshare", ...namespaces, "bash", "-c", init, "room", ...program],
  {
    env: { ...process.env, [configVariable]: config },
    stdio: ["ignore", "inherit", "inherit"],
    detached: true
  }
)

for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => {
    room.kill("SIGKILL")
    process.exitCode = 130
  })
}

const code = await new Promise<number | null>((resolve) => room.once("close", resolve))
removeData()
if (process.exitCode === 130) process.exit(130)
if (!fs.existsSync(path.join(out, files.facts))) cannot(`the cluster or the gateway did not start; see ${out}/logs`)

const evidence = readEvidence(out)
const report = conclude(
  judge(evidence),
  tablesOf(evidence),
  `${
    values.control ?? `seed ${values.seed}`
  }, ${evidence.facts.faults.length} faults of ${values.faults}, evidence in ${out}`,
  values.control === null ? null : controls[values.control]
)
fs.writeFileSync(path.join(out, files.report), report)
// A control may break the cluster itself.
if (code !== 0 && (values.control === null || process.exitCode === 1)) {
  cannot(`the run ended early (${code}); see ${out}/logs`)
}
