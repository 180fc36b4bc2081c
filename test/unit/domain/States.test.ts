/**
 * Operations move between states only as the specification's transition table allows. The tests try every pair of
 * states, and every sequence of transitions.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  canTransition,
  isTerminal,
  type OperationState,
  operationStates,
  requiresEvidence,
  submissionUncertain,
  transitions
} from "../../../src/domain/Operation.ts"
import { permittedTransitions, specifiedStates, uncertainStates } from "../../fixtures/Specification.ts"

/** Every state that one or more transitions lead to. */
const reachableFrom = (state: OperationState): ReadonlySet<OperationState> => {
  const reached = new Set<OperationState>()
  const visit = (from: OperationState): void => {
    for (const to of transitions[from]) {
      if (reached.has(to)) continue
      reached.add(to)
      visit(to)
    }
  }
  visit(state)
  return reached
}

describe("the states of an operation", () => {
  it("are the seven of the specification", () => {
    assert.deepStrictEqual([...operationStates].toSorted(), [...specifiedStates].toSorted())
    assert.deepStrictEqual(Object.keys(transitions).toSorted(), [...specifiedStates].toSorted())
  })

  for (const from of specifiedStates) {
    for (const to of specifiedStates) {
      const permitted = permittedTransitions.includes(`${from} -> ${to}`)
      it(`${permitted ? "permit" : "refuse"} ${from} -> ${to}`, () => {
        assert.strictEqual(canTransition(from, to), permitted)
        assert.strictEqual(transitions[from].includes(to), permitted)
      })
    }
  }

  it("name no transition twice", () => {
    const listed = operationStates.flatMap((from) => transitions[from].map((to) => `${from} -> ${to}`))
    assert.deepStrictEqual(listed.toSorted(), permittedTransitions.toSorted())
  })

  it("are terminal when they are succeeded, failed or cancelled, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(isTerminal), ["succeeded", "failed", "cancelled"])
  })

  it("have no transition once terminal", () => {
    for (const state of ["succeeded", "failed", "cancelled"] as const) assert.isEmpty(reachableFrom(state))
  })

  it("can all be reached from accepted, and none leads back to it", () => {
    assert.deepStrictEqual(
      [...reachableFrom("accepted")].toSorted(),
      specifiedStates.filter((state) => state !== "accepted").toSorted()
    )
    for (const state of specifiedStates) assert.isFalse(reachableFrom(state).has("accepted"), state)
  })

  it("lead into submitting at most once, so no operation is submitted twice", () => {
    assert.isFalse(reachableFrom("submitting").has("submitting"))
  })

  it("never lead to cancelled once a submission may have been sent, so not from indeterminate either", () => {
    for (const state of ["submitting", "submitted", "indeterminate"] as const) {
      assert.isFalse(reachableFrom(state).has("cancelled"), state)
    }
  })

  it("are uncertain while an upstream write may have landed: in submitting and indeterminate, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(submissionUncertain), uncertainStates)
  })

  it("require evidence to leave when they are indeterminate, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(requiresEvidence), ["indeterminate"])
  })
})
