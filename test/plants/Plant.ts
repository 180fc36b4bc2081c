/**
 * Planted mistakes: single edits of `src` and `migrations`, each of which breaks a rule. `npm run plants` shows that a test finds
 * each of them.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/** Tests that should find a plant. */
export interface NamedTests {
  /** From the root of the repository. */
  readonly path: string
  /** A part of their titles, as the file has it. Absent: all tests of the file. */
  readonly title?: string
  /** The file that has the title, if another one. */
  readonly titles?: string
}

/** A mistake that an engineer could make. */
export interface Plant {
  /** The rule that it breaks. It names the plant. */
  readonly rule: string
  /** From the root of the repository. */
  readonly file: string
  /** The old text, which occurs once in the file. */
  readonly from: string
  readonly to: string
  /** Few and fast ones. Either all of them have titles, or none. */
  readonly tests: ReadonlyArray<NamedTests>
}

/** A plant in its three parts: the rule and its file, the edit, and the tests that find it. */
export const plant = (rule: string, file: string) => ({
  edit: (from: string, to: string) => ({
    foundBy: (...tests: Plant["tests"]): Plant => ({ rule, file, from, to, tests })
  })
})

const inFolder = (folder: string) => (file: string, title?: string): NamedTests => ({
  path: `test/${folder}/${file}.test.ts`,
  ...title === undefined ? {} : { title }
})

/** Tests of a file in `test/unit`, without `.test.ts`. */
export const unit = inFolder("unit")

/** The same in `test/postgres`. */
export const postgres = inFolder("postgres")

/** Stories of the queue, by a part of their rules. */
export const story = (title: string): NamedTests => ({
  ...postgres("services/queue/QueueModel", title),
  titles: "test/fixtures/ledger/QueueStories.ts"
})

/** The same in `test/system`. */
export const system = inFolder("system")

/** The same in `test/long`. */
export const long = inFolder("long")

const read = (root: string, file: string): string | null => {
  const absolute = path.join(root, file)
  return fs.existsSync(absolute) ? fs.readFileSync(absolute, "utf8") : null
}

const problemsOf = (root: string, { file, from, tests, to }: Plant): ReadonlyArray<string> => {
  const source = read(root, file)
  const count = source === null ? 0 : source.split(from).length - 1
  return [
    ...source === null ? [`${file} does not exist`] : [],
    ...source !== null && count !== 1 ? [`the old text occurs ${count} times in ${file}`] : [],
    ...from === to ? ["the new text is the old one"] : [],
    ...tests.length === 0 ? ["no test is named"] : [],
    ...new Set(tests.map(({ title }) => title === undefined)).size > 1
      ? ["some of its tests have a title, and some none"]
      : [],
    ...tests.flatMap(({ path, title, titles = path }) => {
      if (read(root, path) === null) return [`${path} does not exist`]
      return title === undefined || read(root, titles)?.includes(title) ? [] : [`${titles} has no test "${title}"`]
    })
  ]
}

/** What is wrong with a table, one line for each problem. */
export const checkTable = (root: string, plants: ReadonlyArray<Plant>): ReadonlyArray<string> => {
  const names = plants.map(({ rule }) => rule)
  const repeated = names.filter((name, n) => names.indexOf(name) !== n)
  return [
    ...repeated.map((name) => `${name}: two plants have this rule`),
    ...plants.flatMap((plant) => problemsOf(root, plant).map((problem) => `${plant.rule}: ${problem}`))
  ]
}
