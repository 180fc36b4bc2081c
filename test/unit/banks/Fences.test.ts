/**
 * No order of events at a bank lets a fenced operation pay after it counts as failed: the first request, the requests of fences, their
 * answers, an approval by a person, and a late arrival. The adapters are real, and so is the engine of the simulator, without sockets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Schema } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import * as fc from "fast-check"
import { validateAskedAt } from "../../../src/domain/operators/validateAskedAt.ts"
import { headOf } from "../../../src/sandbox/BankRequests.ts"
import { bankDialects } from "../../../src/sandbox/banks/bankDialects.ts"
import { makeMemoryRecord } from "../../../src/sandbox/Record.ts"
import { defaultMix } from "../../../src/sandbox/SandboxOutcome.ts"
import { makeSubmissions } from "../../../src/sandbox/Submissions.ts"
import type { FenceAnswer } from "../../../src/submission/providers/ProviderAdapter.ts"
import { fencedBanks, startAdapter } from "../../fixtures/banks/BankClient.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { forAll } from "../../fixtures/forAll.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

/** What the network does with a request: its answer arrives, it is lost, or its answer is. `late`: it arrives when `deliver` runs. */
type Way = "arrives" | "lost" | "unanswered" | "late"
const ways: ReadonlyArray<Way> = ["arrives", "lost", "unanswered", "late"]

/** The bank carries out each order that it receives. */
const mix = { ...defaultMix, succeeded_later: 0, failed_later: 0, rejected: 0 }

/** A bank in this process. Requests take the given ways in turn, and then all arrive. */
const bankOf = Effect.fnUntraced(function*(name: keyof typeof fencedBanks, plan: Iterable<Way>) {
  const { adapter, payload, type } = fencedBanks[name]
  const dialect = bankDialects[name]
  const record = makeMemoryRecord()
  const submissions = yield* makeSubmissions({ dialect, seed: "1", mix, record, faults: () => ({}) })
  const coming = plan[Symbol.iterator]()
  const late: Array<Effect.Effect<unknown>> = []

  const receive = (request: HttpClientRequest.HttpClientRequest) =>
    Effect.suspend(() => {
      const { pathname, search } = new URL(request.url)
      const { headers, method } = request
      const head = headOf({ headers, method, url: pathname + search } as never, 0)
      const body = Buffer.from((request.body as unknown as { readonly body?: Uint8Array }).body ?? [])
      const demand = dialect.demandOf(head)!
      switch (demand._tag) {
        case "Submit":
          return submissions.receive({ key: demand.key, head, body })
        case "Cancel":
        case "Approve":
          return submissions.decide(demand, head)
        case "Answered":
          return typeof demand.answer === "object" && demand.answer.status === 200
            ? Effect.succeed({ answer: () => demand.answer } as never)
            : Effect.die(new Error(`the simulator does not know ${method} ${pathname}`))
        default:
          return submissions.read(demand, head)
      }
    }).pipe(Effect.map((reply) => reply.answer()!), Effect.orDie)

  const client = HttpClient.make((request) =>
    Effect.gen(function*() {
      const way = coming.next().value ?? "arrives"
      const arrival = receive(request)
      // Requests of several processes mix.
      yield* Effect.yieldNow
      if (way === "late") late.push(arrival)
      const answer = way === "lost" || way === "late" ? null : yield* arrival
      yield* Effect.yieldNow
      if (answer === null || way === "unanswered") {
        return yield* new HttpClientError.HttpClientError({
          reason: new HttpClientError.TransportError({ request, description: "the connection was reset" })
        })
      }
      const { contentType, status, text } = answer
      const response = new Response(status === 204 ? null : text, { status, headers: { "content-type": contentType } })
      return HttpClientResponse.fromWeb(request, response)
    })
  )
  const { fence, readStatus, submit } = yield* startAdapter(adapter, Layer.succeed(HttpClient.HttpClient, client))
  const operation = operationOf({ type })
  const fenceWith = (payload: Schema.Json) => Effect.flatMap(fence!(operation, payload), (send) => send!)

  /** A person at the bank decides about the order of a fence that waits. */
  const decide = Effect.fnUntraced(function*(_tag: "Approve" | "Cancel") {
    for (const { fence, settlement } of yield* Effect.orDie(record.receipts)) {
      if (fence !== true || settlement === undefined) continue
      const url = `/ach_transfers/1/${_tag.toLowerCase()}`
      const head = headOf({ headers: {}, method: "POST", url } as never, 0)
      yield* Effect.orDie(submissions.decide({ _tag, reference: settlement.reference }, head))
    }
  })

  /** What the fences answered. */
  const answers: Array<FenceAnswer> = []
  const fenced = Effect.map(fenceWith(payload), (answer) => void answers.push(answer))
  let maySubmit = true
  const submitOnce = Effect.suspend(() => {
    if (!maySubmit) return Effect.void
    maySubmit = false
    return Effect.exit(submit(operation, payload))
  })
  return {
    submit: submitOnce,
    fence: fenced,
    "two fences": Effect.all([fenced, fenced], { concurrency: 2 }),
    deliver: Effect.suspend(() => Effect.forEach(late.splice(0), (arrival) => arrival)),
    // Nothing approves an order that cannot fill.
    approve: name === "increase" ? decide("Approve") : Effect.void,
    /** The order of a fence waits no more. A bank that is asked after that knows of no payment, or of a settled one. */
    cancel: decide("Cancel"),
    answers,
    /** From now on, the first request comes no more. */
    endSubmissions: Effect.sync(() => {
      maySubmit = false
    }),
    /** The fence of a version of the adapter that sends another body. */
    laterFence: Effect.suspend(() => fenceWith({ ...payload, statement_descriptor: "as a later version writes it" })),
    read: readStatus(operation, null),
    /** Whether the payment was carried out: `succeeded`, or not. */
    truth: Effect.map(submissions.truth(operation.id), ({ status }) => status)
  }
})

const events = ["submit", "fence", "two fences", "deliver", "approve"] as const

const plans = (maxLength: number) => fc.array(fc.constantFrom(...ways), { maxLength })

/** Milliseconds between two events, and for which a fence may send. So the next event is while the fence is under way, and no later one is. */
const [step, fenceTime] = [120_000, 150_000]

describe.each(["increase", "alpaca"] as const)("At %s,", (name) => {
  it.live("a fence never lets an operation pay that it proved to have failed, and is certain once the network recovers", () =>
    forAll(
      fc.tuple(fc.array(fc.constantFrom(...events), { maxLength: 6 }), plans(12)),
      rounds(60, 300),
      ([order, plan]) =>
        Effect.scoped(Effect.gen(function*() {
          const bank = yield* bankOf(name, plan)
          for (const event of order) yield* bank[event]
          // Requests that are lost for good take the rest of the plan.
          for (let n = 0; n <= plan.length; n++) yield* bank.fence
          const last = bank.answers.at(-1)!
          assert.notStrictEqual(last._tag, "NotProven", "the network has recovered")
          // The first request comes at last, and so do all others that are late.
          yield* bank.submit
          yield* bank.deliver
          yield* bank.approve
          const status = yield* bank.truth
          const read = yield* bank.read
          const certain = new Set(bank.answers.map(({ _tag }) => _tag).filter((tag) => tag !== "NotProven"))
          assert.deepStrictEqual([...certain], [last._tag], "certain answers agree")
          if (last._tag === "Occupied") assert.strictEqual(status, "failed")
          else {
            const state = status === "succeeded" ? "succeeded" : "submitted"
            assert.deepInclude(read, { _tag: "Proven", state })
          }
        }))
    ))

  it.live("a person who asks the bank between fences records by the rules of evidence, and no payment follows a recorded failure", () =>
    forAll(
      fc.tuple(fc.array(fc.constantFrom(...events, "ask", "record"), { minLength: 2, maxLength: 8 }), plans(8)),
      rounds(100, 500),
      ([order, plan]) =>
        Effect.scoped(Effect.gen(function*() {
          const bank = yield* bankOf(name, plan)
          const result = Effect.map(bank.truth, (status) => status === "succeeded" ? "succeeded" : "failed")
          let now = 0
          let fencing_until: number | null = null
          let answer: { readonly asked_at: number; readonly state: "failed" | "succeeded" } | null = null
          let recorded: "failed" | "succeeded" | null = null
          for (const event of order) {
            now += step
            if (event === "ask") {
              // The bank answers for good once nothing is under way to it: no fence may send, and all that was sent has arrived.
              if (fencing_until === null || fencing_until <= now) {
                yield* bank.endSubmissions
                yield* bank.deliver
              }
              yield* bank.cancel
              answer = { asked_at: now, state: yield* result }
            } else if (event !== "record") {
              if (event === "fence" || event === "two fences") fencing_until = now + fenceTime
              yield* bank[event]
            } else if (answer !== null) {
              const isFailure = answer.state === "failed"
              const facts = { created_at: 0, now, sendable_until: null, fencing_until, isFailure }
              if (validateAskedAt(new Date(answer.asked_at).toISOString(), facts) !== null) continue
              recorded = answer.state
              // The operation is final: nothing more is sent for it.
              break
            }
          }
          yield* bank.deliver
          yield* bank.approve
          if (recorded !== null) assert.strictEqual(yield* result, recorded)
        })),
      // The order of a fence that began after the question arrives at last, and a person at the bank approves it.
      [[["ask", "fence", "approve", "record"], ["late"]]]
    ))
})

describe("A fence at increase", () => {
  it.effect.each(["submit", "fence"] as const)(
    "with another body than the %s that has the key never proves a failure",
    (first) =>
      Effect.gen(function*() {
        const bank = yield* bankOf("increase", ["unanswered"])
        yield* bank[first]
        const answer = yield* bank.laterFence
        const read = yield* bank.read
        // The bank names the object that has the key. That of a fence waits, and a person may approve it.
        assert.strictEqual(answer._tag, "Known")
        const state = first === "submit" ? "succeeded" : "submitted"
        assert.deepInclude(read, { _tag: "Proven", state })
        assert.deepInclude(answer, {
          names: { reference: read._tag === "Proven" ? read.names.reference : null, operation_id: null }
        })
      })
  )
})
