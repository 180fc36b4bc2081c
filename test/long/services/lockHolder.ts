/**
 * A process that waits for the lock of the data directory in its argument and prints "held". It ends with its standard input: it
 * closes its scopes, or after the input "exit" does not.
 */
import { Effect } from "effect"
import { tryLock, waitForLock } from "../../../src/node/embedded/System.ts"

const directory = process.argv[2] ?? ""

const input = Effect.callback<string>((resume) => {
  let text = ""
  process.stdin.setEncoding("utf8").on("data", (chunk) => text += chunk).once("end", () => resume(Effect.succeed(text)))
})

Effect.gen(function*() {
  yield* Effect.sync(() => process.stdout.write("waits\n"))
  yield* waitForLock(directory)
  const again = yield* Effect.scoped(tryLock(directory))
  yield* Effect.sync(() => process.stdout.write(again ? "held twice\n" : "held\n"))
  if ((yield* input) === "exit") process.exit(3)
}).pipe(Effect.scoped, Effect.runPromise)
