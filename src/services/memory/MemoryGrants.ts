/**
 * The administration of grants in memory, put together from its parts.
 */
import * as Effect from "effect/Effect"
import { makeGrantRegistration } from "./MemoryGrantRegistration.ts"
import { makeGrantRevocation } from "./MemoryGrantRevocation.ts"

export const makeMemory = Effect.gen(function*() {
  return { ...yield* makeGrantRegistration, ...yield* makeGrantRevocation }
})
