/**
 * `status` names what needs an operator, each with a call that shows more, and nothing else. The tests give it figures.
 */
import { assert, describe, it } from "@effect/vitest"
import { plain } from "../../../../src/cli/screen/Screen.ts"
import { problemsOf, renderStatus } from "../../../../src/cli/status/StatusCommand.ts"
import { whySkewed } from "../../../../src/domain/ClockSkew.ts"
import type { ProviderName } from "../../../../src/domain/Grant.ts"
import type { FiguresByCondition, SeenWorker } from "../../../../src/domain/operators/FiguresForm.ts"
import { before, now } from "../../../fixtures/ledger/OperatorViews.ts"
import { alerts } from "../../../fixtures/metrics/Deployed.ts"

const provider = "bank" as ProviderName
const [second, minute, hour] = [1000, 60_000, 3_600_000]

const worker: SeenWorker = {
  process_id: "019aa4f0-5c00-4b1e-8d2f-3a4b5c6d7e8f",
  worker_id: "worker-1",
  version: "1.0.0",
  started_at: before(hour),
  seen_at: before(second),
  pauses: { [provider]: null },
  clock_skew_ms: 0
}

type Standing = FiguresByCondition["standing"][number]

const standing = (condition: Standing["condition"], count: number, milliseconds: number): Standing => ({
  provider,
  condition,
  count,
  since: before(milliseconds),
  question: null
})

const healthy: FiguresByCondition = {
  at: now,
  operations: [{ provider, state: "accepted", count: 3 }, { provider, state: "succeeded", count: 100 }],
  held: [],
  unauthorized: [],
  unread: [],
  reversed: [],
  approval: [],
  under_review: [],
  oldest: [],
  standing: [standing("accepted", 3, second)],
  failed: [],
  due: [{ provider, work: "claim", count: 3, since: before(second) }],
  workers: [worker]
}

const problems = (figures: Partial<FiguresByCondition>) =>
  problemsOf({ embedded: false, migrated: true, figures: { ...healthy, ...figures } }).map(({ command, message }) =>
    command === null ? message : `${message}: ${command}`
  )

const listCall = "npm run -s gateway -- operations list"

describe("status", () => {
  it("finds no problem in a ledger at work", () => {
    assert.deepStrictEqual(problems({}), [])
  })

  it("shows a lost worker for ten minutes after its last report", () => {
    const lost = (worker_id: string, minutes: number) => ({ ...worker, worker_id, seen_at: before(minutes * minute) })
    const figures = { ...healthy, workers: [lost("shown", 9), lost("gone", 11)] }
    const text = renderStatus({ embedded: false, migrated: true, figures }, now, { width: null, paint: plain })
    assert.match(text, /^shown .* lost, 9m ago/m)
    assert.notInclude(text, "gone")
  })

  it("names states that last longer than usual, with the number of their operations and the age of the oldest", () => {
    const stuck = (state: "accepted" | "submitting" | "submitted" | "indeterminate", milliseconds: number) =>
      problems({ standing: [standing(state, 2, milliseconds)] })
    for (
      const [state, longest, shown] of [
        ["accepted", hour, "1h"],
        ["submitting", 3 * minute, "3m1s"],
        ["submitted", 72 * hour, "3d"],
        ["indeterminate", 15 * minute, "15m1s"]
      ] as const
    ) {
      assert.deepStrictEqual(stuck(state, longest), [], state)
      assert.deepStrictEqual(stuck(state, longest + second), [
        `bank: 2 operations are ${state}, young ones included, the oldest for ${shown}: ${listCall} --state ${state} --provider bank --order oldest`
      ])
    }
  })

  it("uses the limits of the alerts, so that both tell the same of a ledger", () => {
    const limitOf = (name: string) => Number(/ > (\d+)$/.exec(alerts().find(({ alert }) => alert === name)!.expr)![1])
    const due = (milliseconds: number) =>
      problems({ due: [{ provider, work: "claim", count: 1, since: before(milliseconds) }] })
    const stuck = (condition: "submitting" | "indeterminate") => (milliseconds: number) =>
      problems({ standing: [standing(condition, 1, milliseconds)] })
    for (
      const [alert, found] of [
        ["OperationsDueLate", due],
        ["SubmittingTooOld", stuck("submitting")],
        ["IndeterminateTooOld", stuck("indeterminate")]
      ] as const
    ) {
      assert.lengthOf(found(limitOf(alert) * second), 0, alert)
      assert.lengthOf(found((limitOf(alert) + 1) * second), 1, alert)
    }
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
        `bank: 2 operations are accepted, young ones included, the oldest for 2h: ${listCall} --state accepted --provider bank --order oldest`,
        `bank: 1 operation waits for an approval, the oldest for 1s: ${listCall} --approval --provider bank --order oldest`,
        `bank: 1 operation is held, the oldest for 1s: ${listCall} --held --provider bank --order oldest`,
        `bank: 2 operations are under review, the oldest for 1s: ${listCall} --under-review --provider bank --order oldest`
      ]
    )
  })

  it("says what to ask the provider about the oldest operation under review", () => {
    const asked = { ...standing("under_review", 1, second), question: "Did you pay 7?" }
    const [problem] = problemsOf({ embedded: false, migrated: true, figures: { ...healthy, standing: [asked] } })
    assert.strictEqual(
      problem!.next,
      "Each of them tells what it waits for, and whether it was never sent. Ask the provider about the others, act on the answer, "
        + "and end the review. For one of them, ask: Did you pay 7?"
    )
  })

  it("says to set the account back before it says what to ask about an operation of another account", () => {
    const answer = "not asked, because it was sent to the account first, and the settings name second"
    const asked = { ...standing("under_review", 1, second), question: "Did you pay 7?", answer }
    const [problem] = problemsOf({ embedded: false, migrated: true, figures: { ...healthy, standing: [asked] } })
    assert.include(
      problem!.next,
      "For one of them, set the address and the account back: it was sent to the account first, and the settings name second. "
        + "Or ask: Did you pay 7?"
    )
  })

  it("tells when the next of the submitting operations is taken over, while a worker runs for their provider", () => {
    const claims = { count: 0, lost: 0, first_end: null, last_end: null, next_at: before(-90 * second) }
    const nextOf = (workers: ReadonlyArray<SeenWorker>) =>
      problemsOf({
        embedded: false,
        migrated: true,
        figures: { ...healthy, workers, standing: [{ ...standing("submitting", 1, hour), claims }] }
      })[0]!.next
    // A local failure of fewer than five owners pauses nothing, so the reason stands at each operation alone.
    assert.match(
      nextOf([worker]),
      /^Each of them tells why its claim was returned, if it was: repair that\. Workers take/
    )
    assert.match(
      nextOf([worker]),
      /A worker runs for the provider, and takes over or rescues the first of them at 12:01:30 UTC\.$/
    )
    assert.match(nextOf([{ ...worker, pauses: {} }]), /Check that a worker runs for the provider\.$/)
  })

  it("asks for no worker where one runs, if its work is late", () => {
    const due = [{ provider, work: "claim", count: 3, since: before(2 * minute) }] as const
    const [problem] = problemsOf({ embedded: false, migrated: true, figures: { ...healthy, due } })
    assert.strictEqual(problem!.next, "A worker runs for the provider. If it is busy, start another one.")
  })

  it("tells when operations of a provider that does not answer end", () => {
    const reason = "it did not answer several times in a row, so its circuit is open: the connection was refused"
    const nextOf = (claims?: NonNullable<Standing["claims"]>) =>
      problemsOf({
        embedded: false,
        migrated: true,
        figures: {
          ...healthy,
          workers: [{ ...worker, pauses: { [provider]: reason } }],
          standing: [{ ...standing("submitting", 3, second), ...claims === undefined ? {} : { claims } }]
        }
      })[0]!.next
    const claims = { count: 2, lost: 0, first_end: before(-9 * second), last_end: before(-11 * second), next_at: null }
    assert.include(
      nextOf(claims),
      "2 of them are claimed: whether a request has left is open until its try ends. A try whose answer is lost makes one indeterminate. "
        + "If it never connects, the operation ends as failed (provider_unreachable), never sent, from 12:00:09 to 12:00:11 UTC."
    )
    const one = { ...claims, count: 1, last_end: claims.first_end }
    assert.include(nextOf(one), "1 of them is claimed: whether")
    assert.include(nextOf(one), "never sent, at 12:00:09 UTC.")
    assert.include(nextOf(), "A try whose answer is lost makes one indeterminate.")
    assert.notInclude(nextOf(), "claimed")
  })

  it("names successes that were reversed", () => {
    const where = `${listCall} --reversed --provider bank --order oldest`
    assert.deepStrictEqual(problems({ reversed: [{ provider, state: "succeeded", count: 2 }] }), [
      `bank: 2 successes were reversed in the last 7 days: ${where}`
    ])
  })

  it("names failed operations that their provider proved to have", () => {
    const where = `${listCall} --reversed --provider bank --order oldest`
    assert.deepStrictEqual(problems({ reversed: [{ provider, state: "failed", count: 1 }] }), [
      `bank: the provider proved in the last 7 days that it has 1 failed operation: ${where}`
    ])
  })

  it("names operations that an outage of their provider ended, and no other failures", () => {
    const failed = (code: string, unsent: boolean) => ({ provider, code, count: 5, since: before(hour), unsent })
    assert.deepStrictEqual(
      problems({
        failed: [
          failed("insufficient_funds", false),
          failed("provider_unavailable", false),
          failed("provider_unreachable", true)
        ]
      }),
      [
        `bank: 5 operations failed in the last 24 h: the provider refused to take any request (provider_unavailable), the oldest for 1h: ${listCall} --failed --provider bank --order oldest`,
        `bank: 5 operations failed unsent in the last 24 h: the provider could not be reached (provider_unreachable), the oldest for 1h: ${listCall} --failed --provider bank --order oldest`
      ]
    )
  })

  it("has one short name for a worker without a WORKER_ID", () => {
    const unnamed = { ...worker, worker_id: null, clock_skew_ms: 3000, pauses: { [provider]: "no credentials" } }
    const told = problems({ workers: [unnamed] })
    assert.lengthOf(told, 2)
    assert.match(told[0]!, /^the clock of process 019aa4f0 is/)
    assert.match(told[1]!, /^bank: process 019aa4f0 is paused/)
  })

  it("names operations that nothing allows to send or to read, at any age, and their work as late no more", () => {
    assert.deepStrictEqual(
      problems({
        standing: [standing("unauthorized", 2, second), standing("unread", 11, second)],
        due: [
          { provider, work: "claim", count: 2, since: before(2 * minute) },
          { provider, work: "read_status", count: 11, since: before(2 * minute) }
        ]
      }),
      [
        `bank: 2 operations are not sent, because no live grant, client or provider connection allows it, the oldest for 1s: ${listCall} --waiting --state accepted --provider bank --order oldest`,
        `bank: the status of 11 operations is not read, because no live grant, client or provider connection allows it, the oldest for 1s: ${listCall} --waiting --state submitted --state indeterminate --provider bank --order oldest`
      ]
    )
  })

  it("names due work that is late", () => {
    assert.deepStrictEqual(
      problems({ due: [{ provider, work: "read_status", count: 1000, since: before(2 * minute) }] }),
      [
        `bank: status read is late (1000 or more due), the oldest for 2m: ${listCall} --state submitted --state indeterminate --provider bank --order oldest`
      ]
    )
  })

  it("names providers that are paused, of workers that run, with the reason and the number of unsent operations", () => {
    const paused = { ...worker, pauses: { [provider]: "the provider refused the credentials: status 401" } }
    const states = ["accepted", "submitting", "submitted"] as const
    const waiting = {
      standing: states.map((state, n) => standing(state, 4 + n, 2 * hour)),
      due: [{ provider, work: "claim", count: 4, since: before(2 * hour) } as const]
    }
    assert.deepStrictEqual(problems({ ...waiting, workers: [worker, paused] }), [
      `bank: worker worker-1 is paused, and 9 operations wait: the provider refused the credentials: status 401: ${listCall} --state accepted --state submitting --provider bank --order oldest`
    ])
    const several = problems({ ...waiting, workers: [paused, { ...paused, worker_id: "worker-2" }] })
    assert.lengthOf(several, 1)
    assert.include(several[0], "bank: 2 workers are paused, and 9 operations wait")
    assert.deepStrictEqual(problems({ workers: [worker, { ...paused, seen_at: before(31 * second) }] }), [])
  })

  it("lists the operations of a paused provider only if any wait", () => {
    const workers = [{ ...worker, pauses: { [provider]: "the provider refused the credentials: status 401" } }]
    const [idle] = problems({ workers, standing: [] })
    assert.strictEqual(idle, "bank: worker worker-1 is paused: the provider refused the credentials: status 401")
    const [one] = problems({ workers, standing: [standing("accepted", 1, second)] })
    assert.include(one, `${listCall} --state accepted`)
  })

  it("does not promise to send what a lost worker of a paused provider may have sent", () => {
    const reason = "the provider refused the credentials: status 401"
    const claims = { count: 0, lost: 4, first_end: null, last_end: null, next_at: null }
    const problemWith = (accepted: number) =>
      problemsOf({
        embedded: false,
        migrated: true,
        figures: {
          ...healthy,
          workers: [{ ...worker, pauses: { [provider]: reason } }],
          standing: [
            ...accepted === 0 ? [] : [standing("accepted", accepted, second)],
            { ...standing("submitting", 4, second), claims }
          ]
        }
      })[0]!
    const lost = "4 other operations may have been sent before: workers rescue them."
    const five = problemWith(5)
    assert.strictEqual(five.message, `bank: worker worker-1 is paused, and 5 operations wait: ${reason}`)
    assert.match(five.next, new RegExp(`The workers then send the operations by themselves\\. ${lost}$`))
    const none = problemWith(0)
    assert.strictEqual(none.message, `bank: worker worker-1 is paused: ${reason}`)
    assert.notInclude(none.next, "then send the operations")
    assert.include(none.next, lost)
  })

  it("has a next step for each cause of a pause", () => {
    const nextOf = (reason: string) =>
      problemsOf({
        embedded: false,
        migrated: true,
        figures: {
          ...healthy,
          workers: [{ ...worker, pauses: { [provider]: reason } }],
          standing: [standing("accepted", 1, second)]
        }
      })[0]!.next
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
    for (const [reason, step] of steps) assert.match(nextOf(reason), step, reason)
  })

  it("tells how to cancel the operations whose payloads caused a pause, and nothing of the pause once none waits", () => {
    const id = "01890a5d-ac96-774b-bcce-b302099a8057"
    const reason = `the payload does not fit the schema of payment: amount: Expected a decimal (operations ${id})`
    const workers = [{ ...worker, pauses: { [provider]: reason } }]
    const [problem] = problemsOf({ embedded: false, migrated: true, figures: { ...healthy, workers } })
    assert.include(problem!.message, `(operations ${id})`)
    assert.match(problem!.next, /never sent\. .*, cancel its operation: .* operations cancel ID`\. /)
    assert.notInclude(problem!.next, "settings")
    assert.deepStrictEqual(problems({ workers, standing: [], due: [] }), [])
  })

  it("tells once of workers that paused a provider for the same reason, though they name other operations", () => {
    const ids = ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"]
    const workers = ids.map((id) => ({ ...worker, pauses: { [provider]: `status 401 (operations ${id}, ${ids[0]})` } }))
    const [problem, ...others] = problems({ workers, standing: [standing("accepted", 1, second)] })
    assert.include(problem, "2 workers are paused")
    assert.include(problem, ids[0]!)
    assert.isEmpty(others)
  })

  it("names a provider that no running worker serves, and its late work and its ages are no further problem", () => {
    const other = { ...worker, pauses: { another: null } }
    const due = [{ provider, work: "claim", count: 3, since: before(2 * hour) }] as const
    const late = { due, standing: [standing("accepted", 3, 2 * hour)] }
    const expected = [
      `bank: no worker serves this provider, and 3 operations are unsettled: ${listCall} --state accepted --provider bank --order oldest`
    ]
    assert.deepStrictEqual(problems({ ...late, workers: [other] }), expected)
    assert.deepStrictEqual(
      problems({ ...late, workers: [other, { ...worker, seen_at: before(31 * second) }] }),
      expected
    )
    assert.deepStrictEqual(problems({ workers: [other, worker] }), [])
    // Of an earlier version, which does not tell which providers it serves.
    assert.deepStrictEqual(problems({ workers: [other, { ...worker, pauses: {} }] }), [])
  })

  it("names clocks that differ by more than two seconds, of workers that run, and tells which of them send nothing", () => {
    const skewed = (clock_skew_ms: number | null) => problems({ workers: [{ ...worker, clock_skew_ms }] })
    assert.deepStrictEqual(skewed(-2001), ["the clock of worker worker-1 is 2.0 s behind the clock of the database"])
    assert.deepStrictEqual(skewed(60_000), [
      "the clock of worker worker-1 is 60.0 s ahead of the clock of the database, so it sends nothing"
    ])
    for (const right of [2000, -2000, null]) assert.deepStrictEqual(skewed(right), [])
    const gone = { ...worker, clock_skew_ms: 60_000, seen_at: before(31 * second) }
    assert.deepStrictEqual(problems({ workers: [worker, gone] }), [])
  })

  it("misses workers only while there is work for them", () => {
    for (const workers of [[], [{ ...worker, seen_at: before(31 * second) }]]) {
      const due = [{ provider, work: "claim", count: 3, since: before(2 * hour) }] as const
      assert.deepStrictEqual(problems({ workers, due, standing: [standing("accepted", 3, 2 * hour)] }), [
        "no worker reports itself, so nothing is sent and no status is read: 3 operations are unsettled"
      ])
      assert.deepStrictEqual(problems({ workers, operations: [], standing: [], due: [] }), [])
    }
  })

  it("asks for the migrations that the database lacks", () => {
    assert.deepStrictEqual(problemsOf({ embedded: true, migrated: false, figures: null }), [
      {
        message: "the database lacks migrations",
        next: "Apply them.",
        command: "npm run -s gateway -- migrate"
      }
    ])
  })
})
