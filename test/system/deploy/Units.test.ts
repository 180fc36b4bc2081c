/**
 * The systemd units start commands that exist, with flags and variables that exist, as a user without rights. `systemd-analyze` checks
 * them where it is installed.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { freePort, run, serve } from "../../fixtures/processes/CommandLine.ts"

const files = fs.globSync("deploy/systemd/*.service").toSorted()

/** The settings of a unit: each name with its values. */
const settingsOf = (file: string) => {
  const settings = new Map<string, Array<string>>()
  for (const [, name, value] of fs.readFileSync(file, "utf8").matchAll(/^([A-Za-z]+)=(.*)$/gm)) {
    settings.set(name!, [...settings.get(name!) ?? [], value!])
  }
  return settings
}

const one = (settings: ReturnType<typeof settingsOf>, name: string) => {
  const values = settings.get(name) ?? []
  assert.lengthOf(values, 1, name)
  return values[0]!
}

const operating = fs.readFileSync("docs/operating.md", "utf8")

/** Variables that Node reads itself. */
const ofNode = ["NODE_EXTRA_CA_CERTS"]

const seconds = (span: string) => {
  assert.match(span, /^\d+s$/)
  return Number.parseInt(span)
}

describe.each(files)("The unit %s", (file) => {
  const settings = settingsOf(file)
  const [, program, command, ...args] = one(settings, "ExecStart").split(" ")

  it("starts a command of the program with flags that exist", () => {
    assert.strictEqual(program, "/opt/gateway/node_modules/financial-agents-gateway/dist/main.js")
    assert.include(operating, `| \`${command}\` |`)
    const source = fs.globSync("src/cli/**/*Command*.ts").map((name) => fs.readFileSync(name, "utf8"))
      .find((text) => new RegExp(`Command\\.make\\(\\s*"${command}"`).test(text))
    assert.isDefined(source)
    for (const flag of args.filter((arg) => arg.startsWith("--"))) {
      const name = flag.slice(2)
      assert.isTrue(source!.includes(`"${name}"`) || source!.includes(`"${name.replace(/^no-/, "")}"`), flag)
    }
  })

  it("takes secrets from a file of root alone, with variables that the program reads", () => {
    const place = one(settings, "EnvironmentFile")
    const example = fs.readFileSync(place.replace("/etc/financial-agents-gateway", "deploy/systemd"), "utf8")
    assert.strictEqual(example.split("\n")[0], `# ${place}, owner root, mode 0600`)
    const variables = [
      ...example.matchAll(/^([A-Z_]+)=/gm),
      ...(settings.get("Environment") ?? []).join("\n").matchAll(/^([A-Z_]+)=/gm)
    ]
    for (const [, name] of variables) assert.isTrue(ofNode.includes(name!) || operating.includes(`\`${name}\``), name)
    assert.notInclude(one(settings, "ExecStart"), "postgres://")
    for (const [url] of example.matchAll(/postgres:.*/g)) assert.match(url, /:REPLACE@.*\?sslmode=verify-full$/)
  })

  it.live("starts with the variables of its file, but for the database", () =>
    Effect.gen(function*() {
      const place = one(settings, "EnvironmentFile").replace("/etc/financial-agents-gateway", "deploy/systemd")
      const text = fs.readFileSync(place, "utf8").replace("2026-01:REPLACE", `2026-01:${"A".repeat(43)}=`)
      const variables = Object.fromEntries([...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [
        name!,
        value!.replaceAll(/db\d\.example/g, "127.0.0.1:1")
      ]))
      const env = {
        ...variables,
        HOST: "127.0.0.1",
        PORT: String(yield* freePort),
        ...variables["ADMIN_PORT"] === undefined ? {} : { ADMIN_PORT: String(yield* freePort) }
      }
      // A server starts without its database.
      if (command === "serve") return yield* serve(args, env)
      const { stderr } = yield* run([command!, ...args], env)
      return assert.match(stderr, /^error: database error: [^\n]+\n$/m)
    }))

  it("runs as a user without rights, and cannot write outside of its own directories", () => {
    const hardened = {
      DynamicUser: "true",
      NoNewPrivileges: "true",
      CapabilityBoundingSet: "",
      ProtectSystem: "strict",
      ProtectHome: "true",
      PrivateTmp: "true",
      PrivateDevices: "true"
    }
    for (const [name, value] of Object.entries(hardened)) assert.strictEqual(one(settings, name), value)
    assert.include(settings.get("SystemCallFilter") ?? [], "@system-service")
    // V8 writes code into memory and runs it.
    assert.isUndefined(settings.get("MemoryDenyWriteExecute"))
  })

  it.skipIf(spawnSync("systemd-analyze", ["--version"]).error !== undefined)(
    "is one that systemd takes, with little exposure",
    () => {
      const { stderr, stdout } = spawnSync("systemd-analyze", ["security", "--offline=true", "--threshold=20", file], {
        encoding: "utf8"
      })
      assert.match(stdout, /Overall exposure level .* OK/)
      assert.notMatch(stderr, /Unknown|Failed to parse|ignoring/)
    }
  )
})

describe("The units", () => {
  it("are those of the API, the worker and the migrations", () => {
    assert.deepStrictEqual(files.map((file) => file.replace(/^.*\//, "")), [
      "gateway-migrate.service",
      "gateway-serve@.service",
      "gateway-work.service"
    ])
  })

  it("give each worker the id of its host, and time to drain", () => {
    const work = settingsOf("deploy/systemd/gateway-work.service")
    assert.strictEqual(one(work, "Environment"), "WORKER_ID=%H")
    const [, drain] = /--drain-timeout (\S+)/.exec(one(work, "ExecStart"))!
    assert.isAbove(seconds(one(work, "TimeoutStopSec")), seconds(drain!) + 10)
  })

  it("give a server time to drain, 20 s", () => {
    assert.isAbove(seconds(one(settingsOf("deploy/systemd/gateway-serve@.service"), "TimeoutStopSec")), 20)
  })

  it("let the instances of a host share the port: one user, and an admin port for each", () => {
    const serve = settingsOf("deploy/systemd/gateway-serve@.service")
    assert.strictEqual(one(serve, "User"), "gateway-serve")
    assert.include(serve.get("Environment") ?? [], "ADMIN_PORT=%i")
    const common = fs.readFileSync("deploy/systemd/serve.env", "utf8")
    assert.match(common, /^REUSE_PORT=true$/m)
    // systemd would let the file override the unit.
    assert.notMatch(common, /^ADMIN_PORT=/m)
  })
})
