/** `Retry-After` of 429 and 503 (RFC 9110 §10.2.3): seconds and dates count, everything else is ignored. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { Headers } from "effect/http"
import * as fc from "fast-check"
import { refusedForNow, retryAfterOf } from "../../../../src/submission/http/HttpDecoding.ts"

/** Sun, 06 Nov 1994 08:49:37 GMT */
const instant = 784_111_777_000

const delayOf = (text: string, { date, now = instant, status = 429 }: {
  readonly date?: string
  readonly now?: number
  readonly status?: number
} = {}): number | null => {
  const headers = Headers.fromInput({ "retry-after": text, ...date === undefined ? {} : { date } })
  const delay = retryAfterOf({ headers, status }, now)
  return delay === undefined ? null : Duration.toMillis(delay)
}

describe("Retry-After", () => {
  it("counts in seconds", () => {
    assert.strictEqual(delayOf("120"), 120_000)
    assert.strictEqual(delayOf(" 7 "), 7000)
    assert.strictEqual(delayOf("5", { status: 503 }), 5000)
  })

  it("counts for 5 minutes at most", () => {
    assert.strictEqual(delayOf("301"), 300_000)
    assert.strictEqual(delayOf("9".repeat(400)), 300_000)
    assert.strictEqual(delayOf("Fri, 31 Dec 9999 23:59:59 GMT"), 300_000)
  })

  it("is a date in each of the three forms", () => {
    const now = instant - 30_000
    for (
      const date of ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    ) {
      assert.strictEqual(delayOf(date, { now }), 30_000, date)
    }
  })

  it("as a date counts from the date of the answer: the clocks may differ", () => {
    const date = "Sun, 06 Nov 1994 08:49:07 GMT"
    assert.strictEqual(delayOf("Sun, 06 Nov 1994 08:49:37 GMT", { date, now: instant + 86_400_000 }), 30_000)
    assert.strictEqual(delayOf("10", { date, now: instant + 86_400_000 }), 10_000)
  })

  it("of other statuses is ignored", () => {
    for (const status of [200, 202, 400, 404, 500, 502, 504]) assert.isNull(delayOf("120", { status }))
  })

  it("without a delay, or with a date in the past, is ignored", () => {
    assert.isNull(delayOf("0"))
    assert.isNull(delayOf("Sun, 06 Nov 1994 08:49:37 GMT", { now: instant + 1 }))
  })

  it("of another form is ignored", () => {
    const garbage = [
      "",
      "soon",
      "-1",
      "1.5",
      "1e3",
      "0x10",
      "1994-11-06T08:49:37Z",
      "Sun, 06 Foo 2094 08:49:37 GMT",
      "Sun, 99 Nov 2094 08:49:37 GMT",
      "Sun, 06 Nov 2094 25:49:37 GMT",
      "Sun, 06 Nov 2094 08:49:37 CET"
    ]
    for (const text of garbage) assert.isNull(delayOf(text), text)
    fc.assert(fc.property(fc.string(), (text) => {
      const delay = delayOf(text)
      assert.isTrue(delay === null || (delay > 0 && delay <= 300_000))
    }))
  })

  it.effect("is part of a refusal for now", () =>
    Effect.gen(function*() {
      const answer = {
        status: 429,
        headers: Headers.fromInput({ "retry-after": "3" }),
        bytes: new Uint8Array(),
        body: null
      }
      const refused = yield* Effect.flip(refusedForNow(answer))
      assert.strictEqual(refused._tag, "NotSent")
      assert.deepInclude({ ...refused }, { isRefused: true, retryAfter: Duration.seconds(3) })
      const plain = yield* Effect.flip(refusedForNow({ ...answer, headers: Headers.empty }))
      assert.notProperty(plain, "retryAfter")
    }))
})
