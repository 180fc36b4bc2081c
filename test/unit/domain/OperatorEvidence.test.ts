/**
 * Only an exact status read settles an operation of unknown outcome. The evidence of a person says what was asked, whom, when,
 * and what the answer was.
 */
import { assert, describe, it } from "@effect/vitest"
import { isEvidence } from "../../../src/domain/Operation.ts"
import { type OperatorEvidence } from "../../../src/domain/OperatorEvidence.ts"
import { validateAskedAt } from "../../../src/domain/operators/validateAskedAt.ts"
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

  it("names one between the creation and now, give or take a minute, and a minute after the last send for a failure", () => {
    const [created_at, sendable_until, now] = [9, 10, 11].map((hour) => Date.UTC(2026, 4, 2, hour)) as [
      number,
      number,
      number
    ]
    const reasonAt = (asked: number, sendable: number | null) =>
      validateAskedAt(new Date(asked).toISOString(), {
        created_at,
        now,
        sendable_until: sendable,
        fencing_until: null,
        isFailure: sendable !== null
      })
    const minute = 60_000
    const expected: ReadonlyArray<readonly [asked: number, succeeded: string | null, failed: string | null]> = [
      [
        created_at - minute - 1,
        "2026-05-02T08:58:59.999Z is before the creation of the operation at 2026-05-02T09:00",
        "creation"
      ],
      [
        created_at - minute,
        null,
        "2026-05-02T08:59:00.000Z is less than a minute after 2026-05-02T10:00:00.000Z, until"
      ],
      // Asked at 10:00:00 by a clock that is a minute ahead, or earlier.
      [sendable_until + minute - 1, null, "until which the request could be sent"],
      [sendable_until + minute, null, null],
      [now, null, null],
      [now + 1, null, "2026-05-02T11:00:00.001Z is in the future: it is 2026-05-02T11:00:00.000Z now"],
      [now + minute, null, "2026-05-02T11:01:00.000Z is in the future: it is 2026-05-02T11:00:00.000Z now"],
      [
        now + minute + 1,
        "2026-05-02T11:01:00.001Z is in the future: it is 2026-05-02T11:00:00.000Z now",
        "future"
      ]
    ]
    for (const [asked, ...reasons] of expected) {
      for (const [at, sendable] of [null, sendable_until].entries()) {
        const [reason, part] = [reasonAt(asked, sendable), reasons[at]!]
        if (part === null) assert.isNull(reason)
        else assert.include(reason, part)
      }
    }
  })

  it("names one from a minute after the last fence for a failure, and none before that has ended", () => {
    const [created_at, now] = [0, 7_200_000] as [number, number]
    const reasonAt = (asked: number, fencing_until: number, isFailure = true) =>
      validateAskedAt(new Date(asked).toISOString(), {
        created_at,
        now,
        sendable_until: null,
        fencing_until,
        isFailure
      })
    assert.include(
      reasonAt(now - 2, now - 60_001),
      "until which the order of a fence could be sent. Cancel the order that waits under this key"
    )
    assert.isNull(reasonAt(now - 1, now - 60_001))
    assert.isNull(reasonAt(now - 2, now - 1, false), "a success needs no answer from after the fence")
    for (const failed of [true, false]) {
      assert.include(reasonAt(now, now + 1, failed), "until 1970-01-01T02:00:00.001Z, and it is")
    }
  })
})
