/**
 * The files of the console's page. The package has them in `dist/console`; a clone bundles them on demand.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { type Asset, bundleAssets, contentTypeOf } from "./bundleAssets.ts"

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
