/**
 * Only an exact status read settles an operation of unknown outcome. The evidence of a person says what was asked, whom, when,
 * and what the answer was.
 */
import { assert, describe, it } from "@effect/vitest"
import { isEvidence } from "../../../src/domain/Operation.ts"
import { type OperatorEvidence } from "../../../src/domain/OperatorEvidence.ts"
import { operatorEvidence } from "../../fixtures/OperatorEvidence.ts"

const isProof = (evidence: Readonly<Record<string, unknown>>) => isEvidence({ by: "operator", ...evidence } as never)

const without = (member: keyof OperatorEvidence) =>
  Object.fromEntries(Object.entries(operatorEvidence).filter(([name]) => name !== member))

describe("the evidence of an operator", () => {
  it("has the question, whom it was put to, when, the provider's reference and the answer", () => {
    assert.isTrue(isProof(operatorEvidence))
    assert.isTrue(isProof({ ...operatorEvidence, operator: "alice" }))
    for (const member of ["question", "asked", "asked_at", "reference", "answer"] as const) {
      assert.isFalse(isProof(without(member)), member)
      for (const value of ["", " \n", 5, null, "x".repeat(4097)]) {
        assert.isFalse(isProof({ ...operatorEvidence, [member]: value }), `${member}: ${value}`)
      }
    }
    assert.isFalse(isProof({ a: 1 }))
    assert.isFalse(isProof({}))
  })

  it("has the answer in words, as the digest of a document, or both", () => {
    const document_sha256 = "0f".repeat(32)
    assert.isTrue(isProof({ ...without("answer"), document_sha256 }))
    assert.isTrue(isProof({ ...operatorEvidence, document_sha256 }))
    for (const value of ["0F".repeat(32), "0f".repeat(31), "letter.pdf", null]) {
      assert.isFalse(isProof({ ...operatorEvidence, document_sha256: value }), String(value))
    }
  })

  it("may link to the answer, by https alone", () => {
    assert.isTrue(isProof({ ...operatorEvidence, link: "https://cases.bank.example/4711" }))
    assert.isFalse(isProof({ ...without("answer"), link: "https://cases.bank.example/4711" }), "a link is no answer")
    for (const link of ["http://bank.example", "javascript:alert(1)", "https://", "https://a b", null]) {
      assert.isFalse(isProof({ ...operatorEvidence, link }), String(link))
    }
  })

  it("names an instant in RFC 3339", () => {
    assert.isTrue(isProof({ ...operatorEvidence, asked_at: "2026-05-02T09:30:00.5+02:00" }))
    for (const asked_at of ["2026-05-02", "yesterday", "2026-02-30T09:30:00Z", "2026-05-02 09:30:00Z", "infinity"]) {
      assert.isFalse(isProof({ ...operatorEvidence, asked_at }), asked_at)
    }
  })
})
