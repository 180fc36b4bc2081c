/**
 * Runs `npm test` three times beside two processes that burn a core each. A test that depends on how busy the
 * machine is fails here. `npm run test:busy -- --times 1 --burners 4 -- FILES` for other numbers and files.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { parseArgs } from "node:util"

const { positionals, values } = parseArgs({
  options: { times: { type: "string", default: "3" }, burners: { type: "string", default: "2" } },
  allowPositionals: true
})

const count = (name: keyof typeof values): number => {
  const number = Number(values[name])
  if (Number.isSafeInteger(number) && number > 0) return number
  process.stderr.write(`error: --${name} must be a positive whole number\n`)
  process.exit(1)
}

/** Ends by itself when this process is gone, because its standard input closes then. */
const burn = "process.stdin.on('end', () => process.exit()).resume(); setImmediate(function spin() {"
  + " const end = Date.now() + 50; while (Date.now() < end); setImmediate(spin) })"

const times = count("times")
const burners: ReadonlyArray<ChildProcess> = Array.from(
  { length: count("burners") },
  () => spawn(process.execPath, ["-e", burn], { stdio: ["pipe", "ignore", "inherit"] })
)

let failures = 0
try {
  for (let run = 1; run <= times; run++) {
    const suite = spawn("npm", ["test", "--", ...positionals], { stdio: "inherit" })
    const [code] = await once(suite, "close") as [number | null]
    if (code !== 0) failures++
    process.stdout.write(
      `Run ${run} of ${times} beside ${burners.length} busy processes: ${code === 0 ? "ok" : "failed"}\n`
    )
  }
} finally {
  for (const burner of burners) burner.kill()
}
process.exitCode = failures === 0 ? 0 : 1
