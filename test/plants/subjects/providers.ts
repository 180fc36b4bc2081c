/** Mistakes in the bank to test against: its record must be true, whatever its dialect and its faults. */
import { type Plant, unit } from "../Plant.ts"

const submissions = "src/sandbox/Submissions.ts"

export const providers: ReadonlyArray<Plant> = [
  {
    rule: "an order that ended with a part filled is not recorded as failed",
    file: "src/banks/Alpaca.ts",
    from: "return wasFilled || isFilled(order) ?",
    to: "return wasFilled || order.status === \"filled\" ?",
    tests: [unit("banks/Alpaca", "in both kinds of answers")]
  },
  {
    rule: "the sandbox carries out a key once, and answers its repetition with the first answer",
    file: submissions,
    from: "if (entry.fate === undefined) {\n    entry.fate = chooseFate",
    to: "if (entry.fate === undefined || entry.fate.outcome === \"accepted\") {\n    entry.fate = chooseFate",
    tests: [unit("sandbox/Dialect"), unit("sandbox/Record")]
  },
  {
    rule: "the sandbox carries out no request that arrives after Send-Before",
    file: submissions,
    from: "if (effectiveAt > sendBefore) return",
    to: "if (effectiveAt > sendBefore + 60_000) return",
    tests: [unit("sandbox/Faults"), unit("sandbox/SandboxOutcome")]
  },
  {
    rule: "the sandbox carries out nothing while it refuses the credentials",
    file: "src/sandbox/BankRequests.ts",
    from: "if (refusal !== null) return yield*",
    to: "if (refusal !== null && demand._tag !== \"Submit\") return yield*",
    tests: [unit("sandbox/Faults")]
  },
  {
    rule: "a restarted sandbox finds a submission by its reference",
    file: submissions,
    from: "if (entry.fate !== undefined) hasRecorded(entries, receipt.key, entry)",
    to: "entry.recorded = entry.fate !== undefined",
    tests: [unit("sandbox/Dialect")]
  }
]
