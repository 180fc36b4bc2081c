/** Mistakes of `npm run compare:faults`: of its judge, and of the comparison with a recorded run. */
import { type Plant, plant, unit } from "../Plant.ts"

const judge = "bench/faults/judge.ts"
const tests = [unit("bench/Faults", "goes by the bank's record first")]

export const comparison: ReadonlyArray<Plant> = [
  plant("a payment that the bank booked twice is wrong", judge)
    .edit("if (bookings > 1)", "if (bookings > 2)")
    .foundBy(...tests),
  plant("a payment that the bank did not book is wrong if it is told as paid", judge)
    .edit("bookings === 0 ? \"told_paid\"", "bookings < 0 ? \"told_paid\"")
    .foundBy(...tests),
  plant("a payment that the bank booked is wrong if it is told as failed", judge)
    .edit("bookings === 1 ? \"told_failed\"", "bookings < 0 ? \"told_failed\"")
    .foundBy(...tests),
  plant("a payment that was right and is not so any more differs from the recorded run", "bench/faults/report.ts")
    .edit("recorded.get(id) ?? \"right\"", "recorded.get(id) ?? verdict")
    .foundBy(unit("bench/Faults", "lists each payment whose verdict differs"))
]
