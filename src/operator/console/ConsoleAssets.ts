/**
 * The files of the console's page.
 */
import * as Context from "effect/Context"

/** A file of the page. */
interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
}

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
