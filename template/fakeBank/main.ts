/**
 * The fake bank in a process of its own, so that it outlives the application: `npm run bank`. Start the application with
 * `BANK_URL=http://127.0.0.1:4020` then.
 */
import * as Effect from "effect/Effect"
import { startFakeBank } from "./FakeBank.ts"
import { fakeBank } from "./Providers.ts"

Effect.runFork(Effect.scoped(Effect.gen(function*() {
  const { url } = yield* startFakeBank(fakeBank)
  yield* Effect.logInfo(`Bank: FAKE, ${url}`)
  return yield* Effect.never
})))
