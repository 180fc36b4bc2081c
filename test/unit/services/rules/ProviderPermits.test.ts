/** Permits of provider limits: no window has more requests than the limit, and neither kind of request starves. */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import {
  type PermitTerms,
  permitTerms,
  type ProviderLimit,
  type RequestKind
} from "../../../../src/domain/ProviderLimit.ts"
import {
  type LimitState,
  sharePermits,
  stateAfter,
  toPermits,
  unusedLimit
} from "../../../../src/services/rules/providerPermits.ts"

const longestPause = 300_000_000
/** Microseconds since 1970. */
const start = 1_700_000_000_000_000

/** One row, as all workers share it. */
const makeRow = (terms: PermitTerms) => {
  let state: LimitState = unusedLimit
  return {
    reserve: (now: number, submissions: number, reads: number) => {
      const shares = sharePermits(state, { submissions, reads }, terms, now, longestPause)
      state = stateAfter(state, shares, terms, now)
      return toPermits(shares, terms)
    },
    close: (until: number) => {
      state = { ...state, closed_until: Math.max(state.closed_until, until) }
    }
  }
}

/** The most arrivals in a window, both ends included. Microseconds. */
const mostIn = (arrivals: ReadonlyArray<number>, window: number): number => {
  const sorted = arrivals.toSorted((a, b) => a - b)
  let most = 0
  for (let first = 0, last = 0; last < sorted.length; last++) {
    while (sorted[last]! - sorted[first]! > window) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}

const anyLimit: fc.Arbitrary<ProviderLimit> = fc.record({
  requests: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 7, max: 400 })),
  interval: fc.constantFrom(100, 1000, 60_000),
  reservedForReads: fc.constantFrom(0, 0.01, 0.2, 0.5, 0.99),
  burst: fc.integer({ min: 2, max: 400 }),
  slack: fc.constantFrom(1, 10, 100)
}).map(({ burst, requests, ...limit }) => ({
  requests,
  ...limit,
  ...burst <= requests ? { burst } : {}
}))

/** What workers ask for, one after the other: when, how much, and how late each request arrives. */
const anyCalls = fc.array(
  fc.record({
    pause: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 50_000 }), fc.integer({ min: 0, max: 3_000_000 })),
    submissions: fc.integer({ min: 0, max: 40 }),
    reads: fc.integer({ min: 0, max: 40 }),
    lateness: fc.double({ min: 0, max: 1, noNaN: true }),
    closes: fc.option(fc.integer({ min: 0, max: 2_000_000 }), { freq: 8 })
  }),
  { minLength: 1, maxLength: 80 }
)

describe("permits of a limit", () => {
  it("in no window of the interval do more requests arrive than the limit, also if each arrives late by up to the slack", () => {
    fc.assert(
      fc.property(anyLimit, anyCalls, (limit, calls) => {
        const terms = permitTerms(limit, 250)
        const row = makeRow(terms)
        const arrivals: Array<number> = []
        let clock = start
        for (const { closes, lateness, pause, reads, submissions } of calls) {
          clock += pause
          if (closes !== null) row.close(clock + closes)
          const permits = row.reserve(clock, submissions, reads)
          for (const permit of [...permits.submissions.permits, ...permits.reads.permits]) {
            assert.isAtLeast(permit, 0)
            arrivals.push(clock + permit * 1000 + lateness * terms.slack)
          }
        }
        const interval = Duration.toMillis(Duration.fromInputUnsafe(limit.interval)) * 1000
        assert.isAtMost(mostIn(arrivals, interval), limit.requests)
      }),
      { numRuns: 2000 }
    )
  })

  it("no more requests than the burst go at once", () => {
    fc.assert(fc.property(anyLimit, anyCalls, (limit, calls) => {
      const terms = permitTerms(limit, 250)
      const row = makeRow(terms)
      const begins: Array<number> = []
      let clock = start
      for (const { pause, reads, submissions } of calls) {
        clock += pause
        const permits = row.reserve(clock, submissions, reads)
        begins.push(
          ...[...permits.submissions.permits, ...permits.reads.permits].map((permit) => clock + permit * 1000)
        )
      }
      assert.isAtMost(mostIn(begins, 0), terms.shared.burst + (terms.reads?.burst ?? 0))
      if (limit.burst !== undefined) assert.isAtMost(mostIn(begins, 0), limit.burst)
    }))
  })

  it("status reads take of the permits of submissions only those that are free at once", () => {
    fc.assert(fc.property(anyLimit, anyCalls, (limit, calls) => {
      const terms = permitTerms(limit, 250)
      fc.pre(terms.reads !== null)
      let state = unusedLimit
      let clock = start
      for (const { pause, ...demand } of calls) {
        clock += pause
        const shares = sharePermits(state, demand, terms, clock, longestPause)
        state = stateAfter(state, shares, terms, clock)
        const later = toPermits(shares, terms).reads.permits.filter((permit) => permit > 0)
        assert.isAtMost(later.length, shares.reads_reserved)
      }
    }))
  })

  it("no permit is before the end of a pause, nor further ahead than the horizon", () => {
    fc.assert(fc.property(anyLimit, anyCalls, (limit, calls) => {
      const terms = permitTerms(limit, 250)
      const row = makeRow(terms)
      let clock = start
      let closed = 0
      for (const { closes, pause, reads, submissions } of calls) {
        clock += pause
        if (closes !== null) row.close(clock + closes)
        closed = Math.max(closed, clock + (closes ?? 0))
        const permits = row.reserve(clock, submissions, reads)
        for (const permit of [...permits.submissions.permits, ...permits.reads.permits]) {
          assert.isAtLeast(clock + permit * 1000 + 1, closes === null && closed <= clock ? 0 : closed)
          assert.isAtMost(permit, 250)
        }
      }
    }))
  })

  it("a clock that is set back neither admits more requests than the limit, nor stops the provider for longer than the horizon", () => {
    fc.assert(fc.property(anyLimit, fc.integer({ min: 0, max: 86_400_000_000 }), (limit, step) => {
      const terms = permitTerms(limit, 250)
      const row = makeRow(terms)
      const many = { submissions: 500, reads: 500 }
      const first = row.reserve(start, many.submissions, many.reads)
      // The same true instant by the new clock.
      const later = start - step
      let offset = 0
      const arrivals = [...first.submissions.permits, ...first.reads.permits].map((permit) => permit * 1000)
      const buckets = [terms.shared, ...terms.reads === null ? [] : [terms.reads]]
      const longest = terms.horizon + Math.max(...buckets.map(({ spacing }) => spacing)) + 1
      let waited: number | null = null
      const pause = Math.ceil(longest / 20)
      for (; offset <= 2 * longest; offset += pause) {
        const permits = row.reserve(later + offset, many.submissions, many.reads)
        const more = [...permits.submissions.permits, ...permits.reads.permits].map((permit) => offset + permit * 1000)
        if (more.length > 0) waited ??= Math.min(...more)
        arrivals.push(...more)
      }
      const interval = Duration.toMillis(Duration.fromInputUnsafe(limit.interval)) * 1000
      assert.isAtMost(mostIn(arrivals, interval), limit.requests)
      assert.isAtMost(waited ?? Infinity, longest + pause)
    }))
  })

  const saturate = (limit: ProviderLimit, seconds: number, kinds: ReadonlyArray<RequestKind>, readsEvery = 3) => {
    const terms = permitTerms(limit, 250)
    const row = makeRow(terms)
    const counts = { submissions: 0, reads: 0 }
    for (let clock = 0; clock < seconds * 1_000_000; clock += 20_000) {
      const permits = row.reserve(
        start + clock,
        kinds.includes("submissions") ? 30 : 0,
        kinds.includes("reads") && clock % (readsEvery * 20_000) === 0 ? 30 : 0
      )
      counts.submissions += permits.submissions.permits.length
      counts.reads += permits.reads.permits.length
    }
    return { submissions: counts.submissions / seconds, reads: counts.reads / seconds }
  }

  it("status reads have their share while submissions use the rest, and neither kind starves", () => {
    const limit: ProviderLimit = { requests: 50, interval: "1 second" }
    const both = saturate(limit, 100, ["submissions", "reads"])
    assert.isAtLeast(both.reads, 9)
    assert.isAtLeast(both.submissions, 35)
    const alone = saturate(limit, 100, ["submissions"])
    assert.isAtLeast(alone.submissions, 35)
    const reads = saturate(limit, 100, ["reads"])
    assert.isAtLeast(reads.reads, 20)
  })

  it("kinds that share a limit of one request take turns", () => {
    for (
      const limit of [{ requests: 1, interval: "1 second" }, {
        requests: 10,
        interval: "1 second",
        reservedForReads: 0
      }]
    ) {
      const { reads, submissions } = saturate(limit as ProviderLimit, 100, ["submissions", "reads"], 1)
      const rate = limit.requests / 1.1
      assert.isAtLeast(reads, 0.3 * rate)
      assert.isAtLeast(submissions, 0.3 * rate)
      assert.isAtLeast(reads + submissions, 0.95 * rate)
    }
  })

  it("after the last permit of a demand, the answer says when further ones can be reserved", () => {
    fc.assert(fc.property(anyLimit, fc.boolean(), (limit, isRead) => {
      const terms = permitTerms(limit, 250)
      const row = makeRow(terms)
      const kind = isRead ? "reads" : "submissions"
      const ask = (now: number) => row.reserve(now, isRead ? 0 : 1000, isRead ? 1000 : 0)[kind]
      const first = ask(start)
      assert.isNotEmpty(ask(start + Math.ceil(first.again * 1000)).permits)
    }))
  })
})

describe("the terms of a limit", () => {
  const invalid: ReadonlyArray<readonly [string, object, RegExp]> = [
    ["no requests", { requests: 0 }, /^limit\.requests must be a whole number from 1 to 1000000$/],
    ["half a request", { requests: 1.5 }, /^limit\.requests/],
    ["an interval that is no duration", { interval: "often" }, /^limit\.interval must be a duration from 10ms to 1d$/],
    ["an endless interval", { interval: Infinity }, /^limit\.interval/],
    ["a burst above the limit", { burst: 51 }, /^limit\.burst must be a whole number from 2 to 50: one for/],
    ["a burst with no place for status reads", { burst: 1 }, /^limit\.burst/],
    ["all requests reserved", { reservedForReads: 1 }, /^limit\.reservedForReads must be from 0 to less than 1$/],
    ["a share that is no number", { reservedForReads: NaN }, /^limit\.reservedForReads/],
    ["a slack above the interval", { slack: "2 seconds" }, /^limit\.slack must be a duration from 1ms to 1s$/]
  ]
  for (const [name, change, message] of invalid) {
    it(`refuse ${name}`, () => {
      const limit = { requests: 50, interval: "1 second", ...change } as ProviderLimit
      assert.throws(() => permitTerms(limit, 250), TypeError, message)
    })
  }
})
