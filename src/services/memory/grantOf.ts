/**
 * The grant of a read in memory.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type GrantIdentity,
  GrantUnknown,
  operationsRead,
  refusal,
  standingAt,
  standingFor
} from "../../domain/Grant.ts"
import { MemoryLedger } from "./MemoryLedger.ts"

/** Makes the lookup of a grant that may read. It fails with the refusal of any other. */
export const makeGrantOf = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const clock = yield* Clock.Clock
  return (identity: GrantIdentity) =>
    Effect.suspend(() => {
      const grant = memory.grantOf(identity)
      if (grant === undefined) return Effect.fail(new GrantUnknown())
      const now = DateTime.makeUnsafe(clock.currentTimeMillisUnsafe())
      const standing = standingFor(identity, standingAt(grant, operationsRead, now), operationsRead)
      const refused = refusal(standing, operationsRead)
      return refused === null ? Effect.succeed(grant) : Effect.fail(refused)
    })
})
