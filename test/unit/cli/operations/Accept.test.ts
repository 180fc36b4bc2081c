/**
 * `operations accept` says of each request whether it was accepted, or that this is unknown. The tests run the command on a ledger that
 * records, and whose answers get lost.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Console, Effect, Exit, FileSystem, Layer, Logger, type Scope, Stdio, Stream } from "effect"
import * as Command from "effect/cli/Command"
import { accept } from "../../../../src/cli/operations/accept.ts"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { failureLine } from "../../../../src/node/process/failureLine.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { identityOf, InMemoryLedger, issue } from "../../../fixtures/ledger/Ledger.ts"

const lost = Effect.fail(new StoreUnavailable({ cause: new Error("no answer to COMMIT") }))
const unknown =
  "database error: no answer to COMMIT; it is unknown whether the request was recorded: repeat it with the same key alone"

const lineOf = (key: string, payload: unknown = {}) => JSON.stringify({ type: "payment", key, payload })

/** Runs the command with these arguments, and yields what it printed and how it failed. */
const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>, input: string | Uint8Array = "") {
  const printed: Array<string> = []
  const console = yield* Console.Console
  const exit = yield* Command.runWith(accept, { version: "1" })(args).pipe(
    Effect.provideService(Console.Console, { ...console, log: (text: string) => printed.push(text) }),
    Effect.provide(Stdio.layerTest({ stdin: Stream.make(Buffer.from(input)) })),
    Effect.exit
  )
  return {
    // The help after a wrong flag is no result.
    results: printed.filter((text) => text.startsWith("{")).map((text) => JSON.parse(text)),
    failure: Exit.isFailure(exit) ? failureLine(Cause.squash(exit.cause)) : null
  }
})

const onLedger = <A, E>(
  test: Effect.Effect<A, E, Scope.Scope | Layer.Success<typeof InMemoryLedger | typeof NodeServices.layer>>
) => Effect.provide(Effect.scoped(test), Layer.mergeAll(InMemoryLedger, NodeServices.layer, Logger.layer([])))

describe("operations accept", () => {
  it.live("says that it is unknown whether a request was recorded if the answer of the ledger got lost", () =>
    onLedger(Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { grant } = yield* issue()
      const losing = OperationLedger.of({
        ...ledger,
        accept: (...request) => Effect.andThen(ledger.accept(...request), lost),
        acceptAll: (...request) => Effect.andThen(ledger.acceptAll(...request), lost)
      })
      const of = ["--grant", grant.grant_id]
      const batch = yield* Effect.provideService(
        run([...of, "--from", "-"], [lineOf("a"), "nonsense", lineOf("b")].join("\n")),
        OperationLedger,
        losing
      )
      assert.deepStrictEqual(batch.results.map(({ error, line }) => [line, error.code]), [
        [1, "store_unavailable"],
        [2, "schema_error"],
        [3, "store_unavailable"]
      ])
      assert.strictEqual(batch.results[0].error.message, unknown)
      assert.strictEqual(
        batch.failure,
        "1 lines were not accepted; of 2 lines it is unknown whether they were recorded: repeat them with the same keys alone"
      )
      const one = [...of, "--type", "payment", "--key", "c", "--payload", "{}"]
      const single = yield* Effect.provideService(run(one), OperationLedger, losing)
      assert.deepStrictEqual(single, { results: [], failure: unknown })
      for (const key of ["a", "b", "c"]) {
        assert.isNotNull(yield* ledger.bound({ ...identityOf(grant), key: IdempotencyKey.make(key) }), key)
      }
      const again = yield* run([...of, "--from", "-"], [lineOf("a"), lineOf("b"), lineOf("c")].join("\n"))
      assert.deepStrictEqual(again.results.map(({ created }) => created), [false, false, false])
      assert.isNull(again.failure)
    })))

  it.live("accepts no line that is not UTF-8, from a file or standard input", () =>
    onLedger(Effect.gen(function*() {
      const { grant } = yield* issue()
      const files = yield* FileSystem.FileSystem
      const file = yield* files.makeTempFileScoped()
      const lines = Buffer.from(lineOf("a", { name: "Müller" }), "latin1")
      yield* files.writeFile(file, lines)
      for (const [from, input] of [[file, ""], ["-", lines]] as const) {
        const { failure, results } = yield* run(["--grant", grant.grant_id, "--from", from], input)
        assert.deepStrictEqual(results, [])
        assert.strictEqual(failure, "the lines are not UTF-8: those without a result were not accepted")
      }
      const one = ["--grant", grant.grant_id, "--type", "payment", "--key", "b", "--payload", "-"]
      for (const text of [Buffer.from("\"Müller\"", "latin1"), Buffer.from("\"Muller\"\n\xc3", "latin1")]) {
        assert.isNotNull((yield* run(one, text)).failure)
      }
      const { results } = yield* run(["--grant", grant.grant_id, "--from", "-"], lineOf("a", { name: "Müller" }))
      assert.isTrue(results[0].created)
    })))
})
