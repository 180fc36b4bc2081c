/** Mistakes of `npm run compare:faults`: of its judge, and of the comparison with a recorded run. */
import { type Plant, unit } from "../Plant.ts"

const judge = "bench/faults/judge.ts"
const tests = [unit("bench/Faults", "goes by the bank's record first")]

export const comparison: ReadonlyArray<Plant> = [
  {
    rule: "a payment that the bank booked twice is wrong",
    file: judge,
    from: "if (bookings > 1)",
    to: "if (bookings > 2)",
    tests
  },
  {
    rule: "a payment that the bank did not book is wrong if it is told as paid",
    file: judge,
    from: "bookings === 0 ? \"told_paid\"",
    to: "bookings < 0 ? \"told_paid\"",
    tests
  },
  {
    rule: "a payment that the bank booked is wrong if it is told as failed",
    file: judge,
    from: "bookings === 1 ? \"told_failed\"",
    to: "bookings < 0 ? \"told_failed\"",
    tests
  },
  {
    rule: "a payment that was right and is not so any more differs from the recorded run",
    file: "bench/faults/report.ts",
    from: "recorded.get(id) ?? \"right\"",
    to: "recorded.get(id) ?? verdict",
    tests: [unit("bench/Faults", "lists each payment whose verdict differs")]
  }
]
