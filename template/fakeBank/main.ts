/**
 * The fake bank in a process of its own, so that it outlives the application: `npm run bank`. Start the application with
 * `BANK_URL=http://127.0.0.1:4020` then.
 */
import * as Effect from "effect/Effect"
import { fakeBank } from "./FakeBank.ts"

Effect.runFork(Effect.scoped(Effect.gen(function*() {
  yield* fakeBank.start
  yield* Effect.logInfo(`Bank: FAKE, ${fakeBank.url}`)
  return yield* Effect.never
})))
