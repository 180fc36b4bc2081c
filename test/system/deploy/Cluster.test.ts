/**
 * The examples for Patroni and HAProxy name settings that exist, and hold the rules of docs/deployment.md. PostgreSQL itself reads its
 * parameters; Patroni and HAProxy check their files where they are installed.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { parse } from "yaml"
import { prepareCluster } from "../../../src/node/embedded/Cluster.ts"
import { newCluster } from "../../fixtures/postgres/OwnServer.ts"

const isInstalled = (program: string) => spawnSync(program, ["--version"]).error === undefined

interface Patroni {
  readonly bootstrap: {
    readonly dcs: {
      readonly synchronous_mode: boolean
      readonly synchronous_mode_strict: boolean
      readonly failsafe_mode: boolean
      readonly ttl: number
      readonly loop_wait: number
      readonly retry_timeout: number
      readonly postgresql: { readonly parameters: Readonly<Record<string, string | number>> }
    }
    readonly initdb: ReadonlyArray<string | Readonly<Record<string, string>>>
  }
  readonly postgresql: {
    readonly pg_hba: ReadonlyArray<string>
    readonly authentication: Readonly<Record<string, { readonly sslmode: string }>>
  }
}

const patroniFile = "deploy/patroni/patroni.yml"
const patroniText = fs.readFileSync(patroniFile, "utf8")
const patroni = parse(patroniText) as Patroni
const { dcs, initdb } = patroni.bootstrap

describe("The configuration of Patroni", () => {
  it("loses no acknowledged commit: strict synchronous replication, failsafe mode, and times that fit", () => {
    assert.deepInclude(dcs, { synchronous_mode: true, synchronous_mode_strict: true, failsafe_mode: true })
    assert.isAtMost(dcs.loop_wait + 2 * dcs.retry_timeout, dcs.ttl)
    assert.deepInclude(dcs.postgresql.parameters, { fsync: "on", full_page_writes: "on", synchronous_commit: "on" })
    assert.include(patroniText, "Patroni 3.0.3 or newer")
  })

  it("trusts no connection, and takes none over the network without TLS and a password", () => {
    assert.notMatch(JSON.stringify([patroni.postgresql.pg_hba, initdb]), /trust/)
    for (const line of patroni.postgresql.pg_hba) {
      assert.match(line, /^(?:local all postgres peer|hostssl .* scram-sha-256)$/)
    }
    for (const { sslmode } of Object.values(patroni.postgresql.authentication)) {
      assert.strictEqual(sslmode, "verify-full")
    }
  })

  it.live("has parameters that PostgreSQL knows, with values that it takes", () =>
    Effect.gen(function*() {
      const cluster = yield* newCluster
      const { binaries } = yield* prepareCluster(cluster, undefined)
      const settings = Object.entries(dcs.postgresql.parameters).flatMap(([name, value]) => ["-c", `${name}=${value}`])
      const check = (more: ReadonlyArray<string>) =>
        spawnSync(binaries.postgres, ["-C", "shared_buffers", "-D", cluster.pgdata, ...settings, ...more], {
          encoding: "utf8"
        })
      assert.deepInclude(check([]), { status: 0, stdout: `${6 * 1024 * 128}\n` })
      // The check finds mistakes.
      assert.notStrictEqual(check(["-c", "wal_sender_timeouts=5s"]).status, 0)
    }).pipe(Effect.scoped))

  it.skipIf(!isInstalled("patroni"))("is valid for Patroni, but for hosts and directories of the example", () => {
    const { stderr, stdout } = spawnSync("patroni", ["--validate-config", patroniFile], { encoding: "utf8" })
    const ofExample = /^etcd3\.hosts\.\d+ .* didn't pass validation: .*(?:not known|resolution)|^postgresql\.bin_dir /
    // Patroni before 3.0.3 asks for the lines of pg_hba.conf at the bootstrap, too.
    const known = /^bootstrap\.pg_hba +is not defined\.$/
    const complaints = `${stdout}${stderr}`.split("\n").filter((line) =>
      line !== "" && !ofExample.test(line) && !known.test(line)
    )
    assert.deepStrictEqual(complaints, [])
  })
})

const haproxyFile = "deploy/haproxy/haproxy.cfg"
const haproxyText = fs.readFileSync(haproxyFile, "utf8")

/** The lines of a section, such as `listen primary`. */
const section = (name: string) => haproxyText.split(/^(?=\S)/m).find((text) => text.startsWith(`${name}\n`)) ?? ""

describe("The configuration of HAProxy", () => {
  it("sends writers to the primary alone, and closes their connections when it is one no more", () => {
    assert.match(section("defaults"), /^ {2}default-server inter 1s fall 2 rise 1$/m)
    const primary = section("listen primary")
    assert.include(primary, "option httpchk OPTIONS /primary\n")
    assert.include(primary, "default-server on-marked-down shutdown-sessions\n")
    const servers = [...primary.matchAll(/^ {2}server .*$/gm)].map(([line]) => line)
    assert.lengthOf(servers, 3)
    for (const server of servers) assert.match(server, /check port 8008 check-ssl verify required ca-file/)
  })

  it("asks `readyz` of each gateway, and repeats only requests that were not sent", () => {
    const gateway = section("backend gateway")
    assert.include(gateway, "option httpchk GET /readyz\n")
    assert.deepStrictEqual([...gateway.matchAll(/retry-on (.*)$/gm)].map(([, events]) => events), ["conn-failure"])
    assert.isAtLeast([...gateway.matchAll(/^ {2}server /gm)].length, 2)
  })

  it("lets no client name a certificate", () => {
    assert.include(section("frontend https"), "http-request del-header Client-Cert\n")
  })

  it.skipIf(!isInstalled("haproxy") || !isInstalled("openssl"))("is valid for HAProxy", () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "haproxy-"))
    try {
      const [key, certificate] = [path.join(folder, "key"), path.join(folder, "ca.crt")]
      const request = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=x"
      ]
      execFileSync("openssl", [...request, "-keyout", key, "-out", certificate], { stdio: "pipe" })
      fs.writeFileSync(path.join(folder, "gateway.pem"), fs.readFileSync(key) + fs.readFileSync(certificate, "utf8"))
      const check = (text: string) => {
        const file = path.join(folder, "haproxy.cfg")
        // HAProxy resolves names when it starts. The user of the package exists only where that is installed.
        const here = text.replaceAll("/etc/haproxy/tls", folder).replaceAll(/[a-z0-9]+\.example:/g, "127.0.0.1:")
          .replaceAll(/^ {2}(?:user|group) haproxy\n/gm, "")
        fs.writeFileSync(file, here)
        const { status, stderr } = spawnSync("haproxy", ["-c", "-f", file], { encoding: "utf8" })
        return { status, warnings: stderr.split("\n").filter((line) => /WARNING|ALERT/.test(line)) }
      }
      assert.deepStrictEqual(check(haproxyText), { status: 0, warnings: [] })
      assert.strictEqual(check(haproxyText.replace("fall 2", "falls 2")).status, 1)
    } finally {
      fs.rmSync(folder, { recursive: true })
    }
  })
})
