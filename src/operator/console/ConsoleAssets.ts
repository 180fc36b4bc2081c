/** The files of the console's page. The package has them in `dist/console`; a clone bundles them on demand. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
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

/** The module that bundles the sources. It is no part of the package. */
const bundler = new URL("../../../scripts/consoleBundle.ts", import.meta.url).href

interface Bundler {
  readonly bundleAssets: (folder: string) => Promise<{ readonly assets: ReadonlyMap<string, Asset> }>
}

/** Loads all files. */
export const loadAssets = (): Effect.Effect<ReadonlyMap<string, Asset>> =>
  Effect.promise(async () => {
    if (fs.existsSync(bundled)) return await readFolder(bundled)
    const { bundleAssets } = await import(/* @vite-ignore */ bundler) as Bundler
    return (await bundleAssets(sources)).assets
  })

/** A file that the browser loads. */
export interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
}

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml"
}

/** The content type of a file of the page, by its name. */
export const contentTypeOf = (name: string): string => contentTypes[path.extname(name)] ?? "application/octet-stream"
