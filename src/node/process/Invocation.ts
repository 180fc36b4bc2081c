/** The words that start this program. A clone runs the source by npm; an installed package runs the build by npx. */
import { createRequire } from "node:module"

/** The manifest of this package. Read rather than imported: the file is outside of the compiled sources. */
export const manifest = createRequire(import.meta.url)("../../../package.json") as {
  readonly name: string
  readonly version: string
  readonly engines: { readonly node: string }
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

/** Whether the program runs from a clone. */
export const isClone = import.meta.url.endsWith(".ts")

/** What a user types before the name of a command. `-s` keeps npm's own lines out of the output. */
export const invocation = isClone ? "npm run -s gateway --" : `npx ${manifest.name}`

/** Puts the invocation in place of the program's name in a command line. */
export const toInvocation = (commandLine: string): string =>
  commandLine.replaceAll(`${manifest.name} `, `${invocation} `)

/** Does the same in a message, for the commands that it quotes in backticks. */
export const withInvocations = (message: string): string =>
  message.replaceAll(`\`${manifest.name} `, `\`${invocation} `)

/** Quotes an argument of a command line for a POSIX shell, if it needs quotes. */
export const shellWord = (text: string): string =>
  /^[\w.,:@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
