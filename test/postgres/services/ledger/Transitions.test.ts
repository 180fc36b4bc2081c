/**
 * The ledger records exactly the transitions of the specification, with evidence where required. The tests try every
 * pair of states against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import {
  type IllegalTransition,
  Operation,
  type OperationState,
  type Outcome
} from "../../../../src/domain/Operation.ts"
import { ProviderReference } from "../../../../src/domain/Submission.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { Outcomes } from "../../../../src/services/queue/Outcomes.ts"
import {
  accept,
  conformance,
  drive,
  fieldsOf,
  issue,
  newKey,
  nextMillisecond,
  operationIn,
  outcome,
  pathTo,
  unknownId
} from "../../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider, late } from "../../../fixtures/ledger/Queue.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { permittedTransitions, specifiedStates, uncertainStates } from "../../../fixtures/Specification.ts"

const terminalStates: ReadonlyArray<OperationState> = ["succeeded", "failed", "cancelled"]
const sentStates = ["submitting", "submitted", "indeterminate"] as const
const pairs = specifiedStates.flatMap((from) => specifiedStates.map((to) => ({ from, to })))

const newIn = (state: OperationState) => Effect.flatMap(issue(), ({ identity }) => operationIn(identity, state))

/** The ledger refuses the transition for this reason, and changes nothing. Returns the message. */
const refused = Effect.fnUntraced(
  function*(before: Operation, to: Outcome, evidence: Schema.Json, reason: IllegalTransition["reason"]) {
    const ledger = yield* OperationLedger
    const look = Effect.all([ledger.show(before.id), ledger.history(before.id)])
    const stored = yield* look
    const error = yield* Effect.flip(ledger.transition(before.id, before.revision, to, evidence))
    const { id, state: from } = before
    assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", id, from, to: to.state, reason })
    assert.deepStrictEqual(yield* look, stored)
    return error.message
  }
)

conformance("the transition of an operation", (it) => {
  for (const { from, to } of pairs.filter(({ from, to }) => permittedTransitions.includes(`${from} -> ${to}`))) {
    it.effect(`${from} -> ${to} is recorded`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { identity } = yield* issue()
        const before = yield* operationIn(identity, from)
        const history = yield* ledger.history(before.id)
        const after = yield* ledger.transition(before.id, before.revision, outcome(to), { proof: 1 })

        assert.isTrue(Schema.is(Operation)(after))
        assert.deepStrictEqual(after, {
          ...before,
          state: to,
          terminal: terminalStates.includes(to),
          submission_uncertain: uncertainStates.includes(to),
          revision: before.revision + 1,
          updated_at: after.updated_at,
          completed_at: terminalStates.includes(to) ? after.updated_at : null,
          failure: to === "failed" ? { code: "declined", message: "The bank declined." } : null
        })
        assert.isTrue(DateTime.isGreaterThanOrEqualTo(after.updated_at, before.updated_at))
        assert.deepStrictEqual(yield* ledger.show(before.id), after)
        assert.deepStrictEqual(yield* OperationStore.use((store) => store.find(identity, before.id)), after)
        assert.deepStrictEqual(yield* ledger.history(before.id), [
          ...history,
          { revision: after.revision, from, to, at: after.updated_at, evidence: { proof: 1 } }
        ])
      }))
  }

  for (const { from, to } of pairs.filter(({ from, to }) => !permittedTransitions.includes(`${from} -> ${to}`))) {
    it.effect(`${from} -> ${to} is refused, and changes nothing`, () =>
      Effect.gen(function*() {
        const message = yield* refused(yield* newIn(from), outcome(to), { proof: 1 }, "not_permitted")
        assert.include(message, `${from} to ${to}`)
      }))
  }

  for (
    const [what, failure] of [
      ["a message with NUL, which PostgreSQL cannot keep", { code: "declined", message: "no\0" }],
      ["a message with a lone surrogate", { code: "declined", message: "no\ud800" }],
      ["a message of more than 1024 characters", { code: "declined", message: "n".repeat(1025) }],
      ["an empty message", { code: "declined", message: "" }],
      ["a code that is not a name", { code: "Declined!", message: "no" }]
    ] as const
  ) {
    it.effect(`${what} is refused as a failure, and changes nothing`, () =>
      Effect.gen(function*() {
        const message = yield* refused(
          yield* newIn("submitting"),
          { state: "failed", failure },
          null,
          "invalid_failure"
        )
        assert.include(message, "cannot fail with this code or message")
      }))
  }

  for (const to of ["submitted", "succeeded", "failed"] as const) {
    it.effect(`indeterminate -> ${to} is refused without evidence, and changes nothing`, () =>
      Effect.gen(function*() {
        const before = yield* newIn("indeterminate")
        const own = { by: "operator", ...evidenceOf(before) }
        const members = ["question", "asked", "asked_at", "reference", "answer"]
        const nothing = [
          null,
          false,
          0,
          "",
          "settled",
          [],
          [1],
          {},
          ...members.map((member) => ({ ...own, [member]: null }))
        ]
        for (const evidence of nothing) {
          const message = yield* refused(before, outcome(to), evidence, "evidence_required")
          assert.include(message, "only with recorded evidence")
        }
        const proofs = [
          own,
          { by: "status_read", answer: "\ud800 \\u0000 \0" },
          { read: false },
          { n: "\0" },
          { status: "settled", at: [] }
        ]
        for (const [n, proof] of proofs.entries()) {
          const { id, revision } = n === 0 ? before : yield* newIn("indeterminate")
          const moved = yield* OperationLedger.use((ledger) => ledger.transition(id, revision, outcome(to), proof))
          assert.strictEqual(moved.state, to)
        }
      }))
  }

  it.effect("to an outcome by an operator needs the provider's answer once it may have been sent, and by no worker", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      for (const state of sentStates) {
        for (const to of [outcome("succeeded"), outcome("failed")]) {
          const before = yield* newIn(state)
          const told = { by: "operator", operator: "ada", reason: "seems lost" }
          for (const evidence of [told, { ...told, ...evidenceOf(before), answer: " " }]) {
            yield* refused(before, to, evidence, "evidence_required")
          }
          const answered = yield* newIn(state)
          for (
            const [{ id, revision }, evidence] of [
              [before, { ...told, ...evidenceOf(before) }],
              [answered, { by: "status_read" }]
            ] as const
          ) {
            assert.strictEqual((yield* ledger.transition(id, revision, to, evidence)).state, to.state)
          }
        }
      }
    }))

  it.effect("to an outcome by an operator stores the payment's reference, which no other operation at the provider has", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const elsewhere = (yield* issueAtNewProvider()).identity
      for (const state of sentStates) {
        const [paid, ...rest] = yield* Effect.all([1, 2, 3].map(() => operationIn(identity, state)))
        const proof = { by: "operator", ...evidenceOf(paid!) }
        const end = ({ id, revision }: Operation, to: "succeeded" | "failed", members = {}) =>
          ledger.transition(id, revision, outcome(to), { ...proof, ...members })
        yield* end(paid!, "succeeded", { reference_of: "payment" })
        for (const to of ["succeeded", "failed"] as const) {
          for (const members of [{}, { reference_of: "answer" }]) {
            const error = yield* Effect.flip(end(rest[0]!, to, members))
            assert.deepInclude(fieldsOf(error), { _tag: "IllegalTransition", reason: "evidence_refused" })
            assert.include(error.message, `the reference is that of operation ${paid!.id}`)
            const both = yield* Effect.flip(end(rest[0]!, to, { ...members, asked_at: "2000-05-02T09:30:00Z" }))
            assert.match(both.message, /is before the creation[^]*; the reference is that of operation/)
          }
        }
        // One answer may be about several operations.
        for (const each of rest) yield* end(each, "failed", { reference: `Case ${state}`, reference_of: "answer" })
        yield* end(yield* operationIn(elsewhere, state), "failed")
      }
    }))

  it.effect("to an outcome by an operator keeps the reference that the provider gave", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      const { id, revision } = yield* operationIn(identity, "submitted")
      yield* Outcomes.use(({ report }) => report(id, late(ProviderReference.make("theirs"))))
      const end = (members: object) =>
        ledger.transition(id, revision, outcome("succeeded"), {
          by: "operator",
          ...evidenceOf({ created_at: "1970-01-01T00:00:00Z" }),
          ...members
        })
      const asked_at = DateTime.formatIso(yield* DateTime.now)
      const error = yield* Effect.flip(end({ asked_at }))
      assert.include(error.message, "the provider named the operation theirs: give that reference")
      yield* end({ asked_at, reference: "theirs" })
    }))

  it.effect("is refused if an operator says to have asked before the creation, or in the future, from any state", () =>
    Effect.gen(function*() {
      for (const state of sentStates) {
        const before = yield* newIn(state)
        const asked = (created_at: DateTime.Utc) => ({ by: "operator", ...evidenceOf({ created_at }) })
        const minuteBefore = DateTime.subtract(before.created_at, { minutes: 1 })
        for (
          const [instant, detail] of [
            [DateTime.subtract(minuteBefore, { milliseconds: 1 }), "is before the creation"],
            [DateTime.add(yield* DateTime.now, { hours: 1 }), "is in the future"]
          ] as const
        ) {
          const message = yield* refused(before, outcome("failed"), asked(instant), "evidence_refused")
          assert.include(message, `asked_at ${DateTime.formatIso(instant)} ${detail}`)
        }
        const { state: ended } = yield* OperationLedger.use((ledger) =>
          ledger.transition(before.id, before.revision, outcome("failed"), asked(minuteBefore))
        )
        assert.strictEqual(ended, "failed")
      }
    }))

  it.effect("is refused for an operation that does not exist", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const attempts = [
        Effect.asVoid(ledger.transition(unknownId, 1, outcome("submitting"), null)),
        Effect.asVoid(ledger.show(unknownId)),
        Effect.asVoid(ledger.history(unknownId))
      ]
      for (const attempt of attempts) {
        assert.deepStrictEqual(fieldsOf(yield* Effect.flip(attempt)), { _tag: "OperationNotFound", id: unknownId })
      }
    }))

  it.effect("compares the revision first, and its error names the expected and the actual one", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const operation = yield* operationIn(identity, "indeterminate")
      assert.strictEqual(operation.revision, 3)
      for (const expected of [0, 1, 2, 4, 100]) {
        // Also for illegal transitions: the caller decides upon a state that it has not seen.
        for (const to of ["succeeded", "cancelled"] as const) {
          const error = yield* Effect.flip(ledger.transition(operation.id, expected, outcome(to), null))
          assert.deepStrictEqual(fieldsOf(error), { _tag: "StaleOperation", id: operation.id, expected, actual: 3 })
          assert.include(error.message, `revision 3, not ${expected}`)
        }
      }
      assert.deepStrictEqual(yield* ledger.show(operation.id), operation)
    }))

  it.effect("succeeds for exactly one of several concurrent callers", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      for (let round = 0; round < 20; round++) {
        const operation = yield* operationIn(identity, "submitting")
        const targets = ["submitted", "succeeded", "failed", "indeterminate"] as const
        const results = yield* Effect.forEach(
          [...targets, ...targets],
          (to) => Effect.result(ledger.transition(operation.id, 2, outcome(to), { to })),
          { concurrency: "unbounded" }
        )
        const winners = results.flatMap((result) => result._tag === "Success" ? [result.success] : [])
        assert.deepStrictEqual(winners, [yield* ledger.show(operation.id)])
        for (const result of results) {
          if (result._tag === "Success") continue
          assert.deepStrictEqual(fieldsOf(result.failure), {
            _tag: "StaleOperation",
            id: operation.id,
            expected: 2,
            actual: 3
          })
        }
        const history = yield* ledger.history(operation.id)
        assert.deepStrictEqual(history.map(({ to }) => to), ["accepted", "submitting", winners[0]!.state])
      }
    }))

  it.effect("keeps the times of an operation in order, and changes neither its id, type nor creation", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      let before = operation
      const path = ["submitting", "indeterminate", "submitted", "indeterminate", "submitted", "succeeded"] as const
      for (const state of path) {
        yield* nextMillisecond
        const after = yield* drive(before, [state])
        assert.isTrue(DateTime.isGreaterThan(after.updated_at, before.updated_at))
        assert.strictEqual(after.revision, before.revision + 1)
        assert.deepStrictEqual([after.id, after.type, after.created_at], [before.id, before.type, before.created_at])
        before = after
      }
      const history = yield* ledger.history(operation.id)
      assert.deepStrictEqual(history.map(({ from, revision, to }) => [revision, from, to]), [
        [1, null, "accepted"],
        [2, "accepted", "submitting"],
        [3, "submitting", "indeterminate"],
        [4, "indeterminate", "submitted"],
        [5, "submitted", "indeterminate"],
        [6, "indeterminate", "submitted"],
        [7, "submitted", "succeeded"]
      ])
      assert.deepStrictEqual(before.completed_at, history[6]!.at)
    }))

  it.effect("stores evidence as given", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const evidence = [
        "\u0000",
        { "\u0000": "a\u0000b" },
        { nested: [{ deeply: [[], {}, [null, [true, { "": "" }]]] }] },
        "ünïcödé 日本語 😀 \u2028",
        "{\"quoted\":\"json\"}",
        "\ud800",
        0,
        false,
        "",
        [],
        1e300,
        -0.1,
        { b: 1, a: 2, "10": 3, "9": 4 },
        "x".repeat(100_000)
      ]
      for (const given of evidence) {
        const { operation } = yield* accept(identity, { key: newKey() })
        yield* ledger.transition(operation.id, 1, outcome("submitting"), given)
        assert.deepStrictEqual((yield* ledger.history(operation.id))[1]!.evidence, given)
      }
    }))

  it.effect("stores a failure as given", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue()
      const failures = [
        { code: "a".repeat(64), message: "x" },
        { code: "provider_declined", message: "é".repeat(1024) },
        { code: "x", message: "line\nbreak \"quoted\" 😀 '; DROP TABLE operations; --" }
      ]
      for (const failure of failures) {
        const { operation } = yield* accept(identity)
        const failed = yield* ledger.transition(operation.id, 1, { state: "failed", failure }, null)
        assert.deepStrictEqual(failed.failure, failure)
        assert.deepStrictEqual((yield* ledger.show(operation.id)).failure, failure)
      }
    }))
})

conformance("a read of an operation", (it) => {
  it.effect("changes nothing, in any state and however often it is repeated", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const store = yield* OperationStore
      const { identity } = yield* issue()
      for (const state of specifiedStates) {
        const operation = yield* operationIn(identity, state)
        const history = yield* ledger.history(operation.id)
        assert.lengthOf(history, pathTo[state].length + 1)
        for (let n = 0; n < 5; n++) {
          assert.deepStrictEqual(yield* store.find(identity, operation.id), operation)
        }
        assert.deepStrictEqual(yield* ledger.show(operation.id), operation)
        assert.deepStrictEqual(yield* ledger.history(operation.id), history)
      }
    }))
})
