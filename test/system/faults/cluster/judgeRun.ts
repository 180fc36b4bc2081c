/**
 * `node test/system/faults/cluster/judgeRun.ts DIRECTORY`: judges a run by its files, as a program of its own. Prints the figures as
 * JSON. Exits with 1 if one breaks its rule.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { hasPassed } from "../kit/Figure.ts"
import { decodeFacts, files, readHistory, readReceipts } from "./History.ts"
import { judge } from "./Judge.ts"

const directory = process.argv[2]
if (directory === undefined) throw new Error("specify the directory of a run")

const figures = judge({
  history: readHistory(path.join(directory, files.history)),
  receipts: readReceipts(path.join(directory, files.record)),
  facts: decodeFacts(fs.readFileSync(path.join(directory, files.facts), "utf8"))
})
process.stdout.write(`${JSON.stringify(figures)}\n`)
if (!hasPassed(Object.values(figures))) process.exitCode = 1
