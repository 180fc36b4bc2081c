/**
 * The files of the console's page. The package has them in `dist/console`; a clone bundles them on demand.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

/**
 * The files by their path below `/console/`: `index.html`, and all others below `assets/`. Names of the others change with their content.
 */
export class ConsoleAssets extends Context.Service<ConsoleAssets, ReadonlyMap<string, Asset>>()(
  "financial-agents-gateway/operator/console/ConsoleAssets"
) {}

/** The path of the stylesheet. The pages of the server use it, too. Null: there is none. */
export const stylesheetOf = (assets: ReadonlyMap<string, Asset>): string | null => {
  const name = [...assets.keys()].find((key) => key.endsWith(".css"))
  return name === undefined ? null : `/console/${name}`
}

const bundled = fileURLToPath(new URL("../../console", import.meta.url))
const sources = fileURLToPath(new URL("../../../console", import.meta.url))

const readFolder = async (folder: string): Promise<ReadonlyMap<string, Asset>> => {
  const names = await fs.promises.readdir(folder, { recursive: true, withFileTypes: true })
  const files = names.filter((entry) => entry.isFile()).map(({ name, parentPath }) => path.join(parentPath, name))
  return new Map(
    await Promise.all(files.map(async (file) => {
      const name = path.relative(folder, file).replaceAll(path.sep, "/")
      return [name, { contentType: contentTypeOf(name), bytes: await fs.promises.readFile(file) }] as const
    }))
  )
}

/** Loads all files. */
export const loadAssets = (): Effect.Effect<ReadonlyMap<string, Asset>> =>
  Effect.promise(async () => fs.existsSync(bundled) ? await readFolder(bundled) : (await bundleAssets(sources)).assets)

/** A file that the browser loads. */
interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
}

/** What the bundle holds, by path: see `Metafile` of esbuild. */
interface BundledAssets {
  readonly assets: ReadonlyMap<string, Asset>
  readonly metafile: { readonly inputs: Readonly<Record<string, object>> }
}

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml"
}

/** The content type of a file of the page, by its name. */
const contentTypeOf = (name: string): string => contentTypes[path.extname(name)] ?? "application/octet-stream"

/** The page refers to its sources. In the bundle it refers to the files that were made of them. */
const linked = (page: string, names: ReadonlyMap<string, string>): string =>
  [...names].reduce((text, [source, name]) => text.replace(`"${source}"`, `"/console/${name}"`), page)

const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex").slice(0, 8).toUpperCase()

/** Bundles the folder of the console's sources. */
export const bundleAssets = async (folder: string): Promise<BundledAssets> => {
  const { build } = await import("esbuild")
  const sources = ["main.tsx", "styles/main.css"]
  const { metafile, outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: sources,
    outdir: path.join(folder, "out"),
    entryNames: "assets/[name]-[hash]",
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: ["chrome120", "firefox121", "safari17"],
    legalComments: "none",
    preserveSymlinks: true,
    write: false,
    metafile: true,
    logLevel: "error"
  })
  const assets = new Map<string, Asset>()
  const names = new Map<string, string>()
  for (const { contents, path: file } of outputFiles) {
    const output = path.relative(folder, file).replaceAll(path.sep, "/")
    const name = output.replace(/^out\//, "")
    assets.set(name, { contentType: contentTypeOf(name), bytes: contents })
    names.set(metafile.outputs[output]!.entryPoint!, name)
  }
  const favicon = fs.readFileSync(path.join(folder, "favicon.svg"))
  const faviconName = `assets/favicon-${hashOf(favicon)}.svg`
  assets.set(faviconName, { contentType: contentTypeOf(faviconName), bytes: favicon })
  names.set("favicon.svg", faviconName)
  const page = linked(fs.readFileSync(path.join(folder, "index.html"), "utf8"), names)
  assets.set("index.html", { contentType: contentTypeOf("index.html"), bytes: Buffer.from(page) })
  return { assets, metafile }
}
