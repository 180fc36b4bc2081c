/** Each problem of a ledger tells what needs people, what they do, and which operations it is about. The tests give figures. */
import { assert, describe, it } from "@effect/vitest"
import { whySkewed } from "../../../../src/domain/ClockSkew.ts"
import type { DueWork, FiguresByCondition, SeenWorker } from "../../../../src/domain/operators/FiguresForm.ts"
import { findProblems } from "../../../../src/domain/operators/findProblems.ts"
import {
  bank,
  before,
  healthy,
  hour,
  minute,
  now,
  second,
  type Standing,
  standing,
  worker
} from "../../../fixtures/ledger/OperatorViews.ts"
import { alerts } from "../../../fixtures/metrics/Deployed.ts"

const problemsOf = (figures: Partial<FiguresByCondition>) => findProblems({ ...healthy, ...figures })

/** Each problem in a line: its message, the age of its oldest operation in seconds, and which operations it is about. */
const problems = (figures: Partial<FiguresByCondition>) =>
  problemsOf(figures).map(({ message, operations, since }) =>
    [
      message,
      ...since === null ? [] : [(now.epochMilliseconds - since.epochMilliseconds) / second],
      ...Object.values(operations ?? {})
    ].join("; ")
  )

/** What people do about the first problem. */
const nextOf = (figures: Partial<FiguresByCondition>) => problemsOf(figures)[0]!.next

const refusal = "the provider refused the credentials: status 401"

const due = (work: DueWork, count: number, milliseconds: number) => [
  { provider: bank, work, count, since: before(milliseconds) }
]

/** A worker that runs no more. */
const gone: SeenWorker = { ...worker, seen_at: before(31 * second) }

/** A worker that has paused the provider. */
const pausedFor = (reason: string): SeenWorker => ({ ...worker, pauses: { [bank]: reason } })

describe("The problems of a ledger", () => {
  it("are none in a ledger at work", () => {
    assert.deepStrictEqual(problems({}), [])
  })

  it("names states that last longer than usual, with the number of their operations and the age of the oldest", () => {
    const stuck = (state: "accepted" | "submitting" | "submitted" | "indeterminate", milliseconds: number) =>
      problems({ standing: [standing(state, 2, milliseconds)] })
    for (
      const [state, longest] of [
        ["accepted", hour],
        ["submitting", 3 * minute],
        ["submitted", 72 * hour],
        ["indeterminate", 15 * minute]
      ] as const
    ) {
      assert.deepStrictEqual(stuck(state, longest), [], state)
      assert.deepStrictEqual(stuck(state, longest + second), [
        `bank: 2 operations are ${state}, young ones included; ${(longest + second) / second}; bank; ${state}`
      ])
    }
  })

  it("uses the limits of the alerts, so that both tell the same of a ledger", () => {
    const limitOf = (name: string) => Number(/ > (\d+)$/.exec(alerts().find(({ alert }) => alert === name)!.expr)![1])
    const late = (work: DueWork) => (milliseconds: number) => problems({ due: due(work, 1, milliseconds) })
    const stuck = (condition: "submitting" | "indeterminate") => (milliseconds: number) =>
      problems({ standing: [standing(condition, 1, milliseconds)] })
    for (
      const [alert, found] of [
        ["OperationsDueLate", late("claim")],
        ["SubmittingTooOld", stuck("submitting")],
        ["IndeterminateTooOld", stuck("indeterminate")]
      ] as const
    ) {
      assert.lengthOf(found(limitOf(alert) * second), 0, alert)
      assert.lengthOf(found((limitOf(alert) + 1) * second), 1, alert)
    }
    // Successes are read after all other work.
    assert.include(alerts().find(({ alert }) => alert === "OperationsDueLate")!.expr, "work=\"read_success\"}) > 3600")
    assert.lengthOf(late("read_success")(hour), 0)
    assert.lengthOf(late("read_success")(hour + second), 1)
  })

  it("names operations that wait for an approval, held ones and those under review at any age", () => {
    assert.deepStrictEqual(
      problems({
        standing: [
          standing("accepted", 2, 2 * hour),
          standing("approval", 1, second),
          standing("held", 1, second),
          standing("under_review", 2, second)
        ]
      }),
      [
        "bank: 2 operations are accepted, young ones included; 7200; bank; accepted",
        "bank: 1 operation waits for an approval; 1; bank; approval",
        "bank: 1 operation is held; 1; bank; held",
        "bank: 2 operations are under review; 1; bank; under_review"
      ]
    )
  })

  it("says what to ask the provider about the oldest operation under review", () => {
    const asked = { ...standing("under_review", 1, second), question: "Did you pay 7?" }
    assert.strictEqual(
      nextOf({ standing: [asked] }),
      "Each of them tells what it waits for, and whether it was never sent. Ask the provider about the others, act on the answer, "
        + "and end the review. For one of them, ask: Did you pay 7?"
    )
  })

  it("says to set the account back before it says what to ask about an operation of another account", () => {
    const answer = "not asked, because it was sent to the account first, and the settings name second"
    const asked = { ...standing("under_review", 1, second), question: "Did you pay 7?", answer }
    assert.include(
      nextOf({ standing: [asked] }),
      "For one of them, set the address and the account back: it was sent to the account first, and the settings name second. "
        + "Or ask: Did you pay 7?"
    )
  })

  it("tells when the next of the submitting operations is taken over, while a worker runs for their provider", () => {
    const claims = { count: 0, lost: 0, first_end: null, last_end: null, next_at: before(-90 * second) }
    const nextWith = (one: SeenWorker) =>
      nextOf({ workers: [one], standing: [{ ...standing("submitting", 1, hour), claims }] })
    // A local failure of fewer than five owners pauses nothing, so the reason stands at each operation alone.
    const next = nextWith(worker)
    assert.match(next, /^Each of them tells why its claim was returned, if it was: repair that\. Workers take/)
    assert.match(next, /A worker runs for the provider, and takes over or rescues the first of them at 12:01:30 UTC\.$/)
    assert.match(nextWith({ ...worker, pauses: {} }), /Check that a worker runs for the provider\.$/)
  })

  it("asks for no worker where one runs, if its work is late", () => {
    const next = nextOf({ due: due("claim", 3, 2 * minute) })
    assert.strictEqual(next, "A worker runs for the provider. If it is busy, start another one.")
  })

  it("tells when operations of a provider that does not answer end", () => {
    const reason = "it did not answer several times in a row, so its circuit is open: the connection was refused"
    const nextWith = (claims?: NonNullable<Standing["claims"]>) =>
      nextOf({
        workers: [pausedFor(reason)],
        standing: [{ ...standing("submitting", 3, second), ...claims === undefined ? {} : { claims } }]
      })
    const claims = { count: 2, lost: 0, first_end: before(-9 * second), last_end: before(-11 * second), next_at: null }
    assert.include(
      nextWith(claims),
      "2 of them are claimed: whether a request has left is open until its try ends. A try whose answer is lost makes one indeterminate. "
        + "If it never connects, the operation ends as failed (provider_unreachable), never sent, from 12:00:09 to 12:00:11 UTC."
    )
    const one = { ...claims, count: 1, last_end: claims.first_end }
    assert.include(nextWith(one), "1 of them is claimed: whether")
    assert.include(nextWith(one), "never sent, at 12:00:09 UTC.")
    assert.include(nextWith(), "A try whose answer is lost makes one indeterminate.")
    assert.notInclude(nextWith(), "claimed")
  })

  it("names successes that were reversed", () => {
    assert.deepStrictEqual(problems({ reversed: [{ provider: bank, state: "succeeded", count: 2 }] }), [
      "bank: 2 successes were reversed in the last 7 days; bank; reversed"
    ])
  })

  it("names failed operations that their provider proved to have", () => {
    assert.deepStrictEqual(problems({ reversed: [{ provider: bank, state: "failed", count: 1 }] }), [
      "bank: the provider proved in the last 7 days that it has 1 failed operation; bank; reversed"
    ])
  })

  it("names operations that an outage of their provider ended, and no other failures", () => {
    const failed = (code: string, unsent: boolean) => ({ provider: bank, code, count: 5, since: before(hour), unsent })
    assert.deepStrictEqual(
      problems({
        failed: [
          failed("insufficient_funds", false),
          failed("provider_unavailable", false),
          failed("provider_unreachable", true)
        ]
      }),
      [
        "bank: 5 operations failed in the last 24 h: the provider refused to take any request (provider_unavailable); 3600; bank; failed; provider_unavailable",
        "bank: 5 operations failed unsent in the last 24 h: the provider could not be reached (provider_unreachable); 3600; bank; failed; provider_unreachable"
      ]
    )
  })

  it("has one short name for a worker without a WORKER_ID", () => {
    const unnamed = { ...pausedFor("no credentials"), worker_id: null, clock_skew_ms: 3000 }
    assert.deepStrictEqual(problems({ workers: [unnamed] }), [
      "the clock of process 019aa4f0 is 3.0 s ahead of the clock of the database",
      "bank: process 019aa4f0 is paused, and 3 operations wait: no credentials; bank; accepted,submitting"
    ])
  })

  it("names operations that nothing allows to send or to read, or without a payload key, at any age", () => {
    assert.deepStrictEqual(
      problems({
        standing: [
          standing("unauthorized", 2, second),
          standing("keyless", 3, second),
          standing("unread", 11, second)
        ]
      }),
      [
        "bank: 2 operations are not sent, because no live grant, client or provider connection allows it; 1; bank; waiting; accepted",
        "bank: 3 operations are not sent, because the workers lack the key of the payload; 1; bank; waiting; accepted",
        "bank: the status of 11 operations is not read, because no live grant, client or provider connection allows it; 1; bank; waiting; submitted,indeterminate"
      ]
    )
  })

  it("names due work that is late, however many operations are put off", () => {
    const putOff = (["unauthorized", "keyless", "unread"] as const).map((condition) =>
      standing(condition, 1000, second)
    )
    assert.deepStrictEqual(
      problems({ standing: putOff, due: [...due("claim", 1000, 2 * minute), ...due("read_status", 2, 2 * minute)] })
        .slice(3),
      [
        "bank: submission is late (1000 or more due); 120; bank; accepted",
        "bank: status read is late (2 due); 120; bank; submitted,indeterminate"
      ]
    )
    assert.deepStrictEqual(problems({ due: due("read_status", 1000, 2 * minute) }), [
      "bank: status read is late (1000 or more due); 120; bank; submitted,indeterminate"
    ])
  })

  it("names providers that are paused, of workers that run, with the reason and the number of unsent operations", () => {
    const paused = pausedFor(refusal)
    const states = ["accepted", "submitting", "submitted"] as const
    const waiting = {
      standing: states.map((state, n) => standing(state, 4 + n, 2 * hour)),
      due: due("claim", 4, 2 * hour)
    }
    assert.deepStrictEqual(problems({ ...waiting, workers: [worker, paused] }), [
      `bank: worker worker-1 is paused, and 9 operations wait: ${refusal}; bank; accepted,submitting`
    ])
    assert.deepStrictEqual(problems({ ...waiting, workers: [paused, { ...paused, worker_id: "worker-2" }] }), [
      `bank: 2 workers are paused, and 9 operations wait: ${refusal}; bank; accepted,submitting`
    ])
    assert.deepStrictEqual(problems({ workers: [worker, { ...gone, pauses: paused.pauses }] }), [])
  })

  it("lists the operations of a paused provider only if any wait", () => {
    const workers = [pausedFor(refusal)]
    assert.deepStrictEqual(problems({ workers, standing: [] }), [`bank: worker worker-1 is paused: ${refusal}`])
    assert.deepStrictEqual(problems({ workers, standing: [standing("accepted", 1, second)] }), [
      `bank: worker worker-1 is paused, and 1 operation waits: ${refusal}; bank; accepted,submitting`
    ])
  })

  it("does not promise to send what a lost worker of a paused provider may have sent", () => {
    const claims = { count: 0, lost: 4, first_end: null, last_end: null, next_at: null }
    const problemWith = (accepted: number) =>
      problemsOf({
        workers: [pausedFor(refusal)],
        standing: [
          ...accepted === 0 ? [] : [standing("accepted", accepted, second)],
          { ...standing("submitting", 4, second), claims }
        ]
      })[0]!
    const lost = "4 other operations may have been sent before: workers rescue them."
    const five = problemWith(5)
    assert.strictEqual(five.message, `bank: worker worker-1 is paused, and 5 operations wait: ${refusal}`)
    assert.match(five.next, new RegExp(`The workers then send the operations by themselves\\. ${lost}$`))
    const none = problemWith(0)
    assert.strictEqual(none.message, `bank: worker worker-1 is paused: ${refusal}`)
    assert.notInclude(none.next, "then send the operations")
    assert.include(none.next, lost)
  })

  it("has a next step for each cause of a pause", () => {
    const nextFor = (reason: string) =>
      nextOf({ workers: [pausedFor(reason)], standing: [standing("accepted", 1, second)] })
    const undeclared = "the adapter does not declare its answers: "
    const steps: ReadonlyArray<readonly [string, RegExp]> = [
      ["the provider refused the credentials: status 403", /^Check the credentials/],
      [`${undeclared}status 401, which is not declared`, /^Check the credentials/],
      [
        `${undeclared}status 404, which is not declared: POST /v1/transfers`,
        /^Check the base URL.*leaves one operation/
      ],
      [
        "its probe, which sends nothing, failed: a status read of an operation that does not exist got status 404",
        /^Check the base URL.*No operation is sent before/
      ],
      [`${undeclared}status 500, which is not declared`, /^The provider fails: wait\./],
      [`${undeclared}status 201, which is not declared`, /^Compare the adapter/],
      [
        "it did not answer several times in a row, so its circuit is open: the connection was refused (ECONNREFUSED): bank:4999",
        /^Check the base URL of the provider\. If it is right, wait\..*failed \(provider_unreachable\)/
      ],
      [whySkewed({ proven: 6000, most: 6001 })!, /^Set the clock/],
      ["no credentials: VaultError", /^Repair the reason/],
      [
        "the adapter declares no payload of the type refund (operations 01890a5d-ac96-774b-bcce-b302099a8057)",
        /^The operations were never sent\./
      ]
    ]
    for (const [reason, step] of steps) assert.match(nextFor(reason), step, reason)
  })

  it("tells how to cancel the operations whose payloads caused a pause, and nothing of the pause once none waits", () => {
    const id = "01890a5d-ac96-774b-bcce-b302099a8057"
    const reason = `the payload does not fit the schema of payment: amount: Expected a decimal (operations ${id})`
    const workers = [pausedFor(reason)]
    const [problem] = problemsOf({ workers })
    assert.include(problem!.message, `(operations ${id})`)
    assert.match(problem!.next, /never sent\. .*, cancel its operation: .* operations cancel ID`\. /)
    assert.notInclude(problem!.next, "settings")
    assert.deepStrictEqual(problems({ workers, standing: [], due: [] }), [])
  })

  it("tells once of workers that paused a provider for the same reason, though they name other operations", () => {
    const ids = ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"]
    const workers = ids.map((id) => pausedFor(`status 401 (operations ${id}, ${ids[0]})`))
    const [problem, ...others] = problems({ workers, standing: [standing("accepted", 1, second)] })
    assert.include(problem, "2 workers are paused")
    assert.include(problem, ids[0]!)
    assert.isEmpty(others)
  })

  it("names a provider that no running worker serves, and its late work and its ages are no further problem", () => {
    const other = { ...worker, pauses: { another: null } }
    const late = { due: due("claim", 3, 2 * hour), standing: [standing("accepted", 3, 2 * hour)] }
    const expected = ["bank: no worker serves this provider, and 3 operations are unsettled; bank; accepted"]
    assert.deepStrictEqual(problems({ ...late, workers: [other] }), expected)
    assert.deepStrictEqual(problems({ ...late, workers: [other, gone] }), expected)
    assert.deepStrictEqual(problems({ workers: [other, worker] }), [])
    // Of an earlier version, which does not tell which providers it serves.
    assert.deepStrictEqual(problems({ workers: [other, { ...worker, pauses: {} }] }), [])
  })

  it("tells of successes that may be reversed and that no worker reads: late, unserved or without any worker", () => {
    const unread = { operations: [], standing: [], due: due("read_success", 2, 2 * hour) }
    const [late] = problemsOf(unread)
    assert.strictEqual(late!.message, "bank: status read of successes that may be reversed is late (2 due)")
    assert.match(late!.next, /only while its adapter promises `reversibleFor`\.$/)
    const both = { ...unread, operations: healthy.operations }
    const told = "the status read of 2 successes that may be reversed is due"
    const other = { ...worker, pauses: { another: null } }
    const lacking = "bank: no worker serves this provider, and"
    assert.deepStrictEqual(problems({ ...unread, workers: [other] }), [`${lacking} ${told}`])
    assert.deepStrictEqual(problems({ ...both, workers: [other] }), [
      `${lacking} 3 operations are unsettled, and ${told}; bank; accepted`
    ])
    assert.deepStrictEqual(problems({ ...unread, workers: [gone] }), [
      `no worker reports itself, so nothing is sent and no status is read: ${told}`
    ])
  })

  it("names clocks that differ by more than two seconds, of workers that run, and tells which of them send nothing", () => {
    const skewed = (clock_skew_ms: number | null) => problems({ workers: [{ ...worker, clock_skew_ms }] })
    assert.deepStrictEqual(skewed(-2001), ["the clock of worker worker-1 is 2.0 s behind the clock of the database"])
    assert.deepStrictEqual(skewed(60_000), [
      "the clock of worker worker-1 is 60.0 s ahead of the clock of the database, so it sends nothing"
    ])
    for (const right of [2000, -2000, null]) assert.deepStrictEqual(skewed(right), [])
    assert.deepStrictEqual(problems({ workers: [worker, { ...gone, clock_skew_ms: 60_000 }] }), [])
  })

  it("misses workers only while there is work for them", () => {
    const late = { due: due("claim", 3, 2 * hour), standing: [standing("accepted", 3, 2 * hour)] }
    for (const workers of [[], [gone]]) {
      assert.deepStrictEqual(problems({ ...late, workers }), [
        "no worker reports itself, so nothing is sent and no status is read: 3 operations are unsettled"
      ])
      assert.deepStrictEqual(problems({ workers, operations: [], standing: [], due: [] }), [])
    }
  })
})
