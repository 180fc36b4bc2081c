import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as os from "node:os"

/** Most processes of one supervisor. */
const most = 64

/** The processor cores that this process may use: those of its affinity and its CPU quota. */
export const availableProcesses = (): number => Math.min(most, os.availableParallelism())

/** Whether a supervisor can run this number of processes. */
export const isProcessCount = (count: number): boolean => Number.isInteger(count) && count >= 1 && count <= most

/** The rule, for messages. */
export const processCountRule = `a number of processes from 1 to ${most}, or auto`

/** A number of processes. `auto` is one for each available core. */
export const ProcessCount = Schema.String.check(
  Schema.makeFilter((text: string) => text === "auto" || (/^[0-9]{1,2}$/u.test(text) && isProcessCount(Number(text))), {
    expected: `${processCountRule}, in the flag or in PROCESSES`
  })
).pipe(
  Schema.decodeTo(
    Schema.Int,
    SchemaTransformation.transform({
      decode: (text) => text === "auto" ? availableProcesses() : Number(text),
      encode: String
    })
  )
)
