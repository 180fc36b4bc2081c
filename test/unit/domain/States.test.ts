/**
 * Operations move between states only as the specification's transition table allows. The tests try every pair of
 * states, and every sequence of transitions.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  canTransition,
  isTerminal,
  operationStates,
  requiresEvidence,
  submissionUncertain,
  transitions
} from "../../../src/domain/Operation.ts"
import { permittedTransitions, specifiedStates, uncertainStates } from "../../fixtures/Specification.ts"

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

  it("are terminal when they are succeeded, failed or cancelled, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(isTerminal), ["succeeded", "failed", "cancelled"])
  })

  it("are uncertain while an upstream write may have landed: in submitting and indeterminate, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(submissionUncertain), uncertainStates)
  })

  it("require evidence to leave when they are indeterminate, and only then", () => {
    assert.deepStrictEqual(specifiedStates.filter(requiresEvidence), ["indeterminate"])
  })
})
