/** Bundles the page of the console: for the package, and on demand in a clone. */
import { build } from "esbuild"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Asset, contentTypeOf } from "../src/operator/console/ConsoleAssets.ts"

/** What the bundle holds, by path: see `Metafile` of esbuild. */
interface BundledAssets {
  readonly assets: ReadonlyMap<string, Asset>
  readonly metafile: { readonly inputs: Readonly<Record<string, object>> }
}

/** The page refers to its sources. In the bundle it refers to the files that were made of them. */
const linked = (page: string, names: ReadonlyMap<string, string>): string =>
  [...names].reduce((text, [source, name]) => text.replace(`"${source}"`, `"/console/${name}"`), page)

const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex").slice(0, 8).toUpperCase()

/** Bundles the folder of the console's sources. */
export const bundleAssets = async (folder: string): Promise<BundledAssets> => {
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
    inject: ["jsx.ts"],
    jsxFactory: "h",
    jsxFragment: "Fragment",
    tsconfigRaw: { compilerOptions: { jsx: "react" } },
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
