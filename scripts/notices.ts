/** The licences of the packages that a bundle holds, as one text. */
import * as fs from "node:fs"
import * as path from "node:path"
import { root } from "./bundle.ts"

/** What a bundle holds, by path: a part of esbuild's `Metafile`. */
interface Contents {
  readonly inputs: Readonly<Record<string, object>>
}

/** The folders of the packages in a bundle, from the root, sorted by the names of the packages. */
export const packagesOf = ({ inputs }: Contents): ReadonlyArray<string> => {
  const folders = Object.keys(inputs).flatMap((input) => /node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

/** The licence of a package that is published without its file. It comes from the repository of the package. */
const keptLicence = (name: string): string => {
  const file = path.join(root, "scripts/licences", `${name.replace("/", "+")}.txt`)
  if (!fs.existsSync(file)) throw new Error(`${name} has no licence file: its licence must be in the notices`)
  return fs.readFileSync(file, "utf8").trim()
}

const noticeOf = (folder: string): string => {
  const place = path.join(root, folder)
  const { license, name, version } = JSON.parse(fs.readFileSync(path.join(place, "package.json"), "utf8")) as {
    readonly name: string
    readonly version: string
    readonly license?: string
  }
  const files = fs.readdirSync(place).filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file)).sort()
  const texts = files.length === 0
    ? [keptLicence(name)]
    : files.map((file) => fs.readFileSync(path.join(place, file), "utf8").trim())
  return [`${name} ${version} (${license ?? "see below"})`, ...texts].join("\n\n")
}

/** The script of the page at `/docs` names its origin in its first lines. The package that holds it has no licence of it. */
const noticeOfDocsScript = (script: string): string => {
  const origin = /@scalar\/api-reference@[\w.-]+/.exec(script.slice(0, 500))?.[0]
  if (origin === undefined) throw new Error("the script of the page at /docs does not name its origin")
  const licence = fs.readFileSync(path.join(root, "scripts/licences/scalar.txt"), "utf8").trim()
  return `${origin.replace(/@(?=[^@]*$)/, " ")} (MIT)\n\n${licence}`
}

/** The notices of the program, of the page of the console, and of the script of the page at `/docs`. */
export const noticesOf = (program: Contents, page: Contents, docsScript: string): string =>
  [
    "The program (main.js), its console (console) and its documentation page (docs-page.txt) hold these packages:",
    ...new Set([...packagesOf(program), ...packagesOf(page)].map(noticeOf)),
    noticeOfDocsScript(docsScript)
  ].join(`\n\n${"-".repeat(80)}\n\n`) + "\n"
