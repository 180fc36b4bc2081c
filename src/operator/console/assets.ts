/**
 * The files of the console's page. The package has them in `dist/console`; a clone bundles them on demand.
 */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { type Asset, bundleAssets, contentTypeOf } from "./bundleAssets.ts"

export type { Asset }

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

/**
 * All files, by their path below `/console/`: `index.html`, and `assets/NAME-HASH.EXT` for the others. The name of a file changes
 * with its contents.
 */
export const loadAssets = (): Effect.Effect<ReadonlyMap<string, Asset>> =>
  Effect.promise(async () => fs.existsSync(bundled) ? await readFolder(bundled) : (await bundleAssets(sources)).assets)
