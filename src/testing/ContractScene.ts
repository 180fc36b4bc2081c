/** One call of an adapter against the bank of the conformance kit, under a clock that the kit moves. */
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { declaredFailure } from "../domain/GatewayFailures.ts"
import { ProviderConnectionId, ResourceOwner } from "../domain/Grant.ts"
import { OperationId, OperationType } from "../domain/Operation.ts"
import { payloadDecoders } from "../domain/PayloadSchemas.ts"
import type { ProviderOperation, ProviderReference } from "../domain/Submission.ts"
import {
  type NotSent,
  ProviderAdapter,
  type StatusAnswer,
  type SubmissionAnswer,
  type Uncertain
} from "../submission/providers/ProviderAdapter.ts"
import { readNeedsPayload } from "../submission/providers/ProviderPromises.ts"
import type { ContractBank, Seen } from "./ContractBank.ts"

/** The adapter under test, and the operation that it submits. */
export interface Subject {
  readonly adapter: (baseUrl: string) => Layer.Layer<ProviderAdapter, unknown, HttpClient.HttpClient>
  readonly client: Layer.Layer<HttpClient.HttpClient>
  readonly operation: {
    readonly type: string
    readonly resource_owner?: string
    readonly provider_connection_id?: string
  }
  readonly payload: Schema.Json
  /** Milliseconds of real time. */
  readonly patience: number
}

/** The two operations of the kit. The bank answers about `foreign` where it mixes answers up. */
export const operationIds = {
  own: OperationId.make("019aa4f0-5c00-7b1e-8d2f-0a1b2c3d4e5f"),
  foreign: OperationId.make("019aa4f0-5c00-7b1e-8d2f-f0e0d0c0b0a0")
}

/** Whether the adapter declares the code of a refusal. */
type WithDeclaration<A> = A & { readonly isDeclared?: boolean }

const withDeclaration = <A extends SubmissionAnswer | StatusAnswer>(
  { failures }: ProviderAdapter["Service"],
  answer: A
): WithDeclaration<A> =>
  "code" in answer ? { ...answer, isDeclared: declaredFailure(failures, answer.code) !== null } : answer

/**
 * The end of a call. `NoResult`: it died, or did not end, which a worker records as uncertain. `InvalidSample`: the adapter
 * was not called, because its schema refuses the payload of the kit.
 */
export type Said =
  | WithDeclaration<SubmissionAnswer>
  | WithDeclaration<StatusAnswer>
  | {
    readonly _tag: "NotSent"
    readonly reason: string
    readonly isRefused?: boolean
    readonly isLocal?: boolean
    readonly isPermanent?: boolean
  }
  | { readonly _tag: "Uncertain"; readonly reason: string }
  | { readonly _tag: "NoResult"; readonly reason: string }
  | { readonly _tag: "InvalidSample" }

export interface Observation {
  readonly adapter: ProviderAdapter["Service"]
  readonly said: Said
  readonly seen: Seen
}

export type Call = (adapter: ProviderAdapter["Service"], now: DateTime.Utc) => Effect.Effect<Said>

const operationOf = ({ operation }: Subject, id: OperationId, send_before: DateTime.Utc): ProviderOperation => ({
  id,
  type: OperationType.make(operation.type),
  resource_owner: ResourceOwner.make(operation.resource_owner ?? "owner"),
  provider_connection_id: ProviderConnectionId.make(
    operation.provider_connection_id ?? "0b0e6ab4-43f6-4a3d-9f43-6a1b8a3f5d3e"
  ),
  send_before
})

const noResult = (reason: string): Said => ({ _tag: "NoResult", reason })

/** Why the declared payloads of an adapter refuse a payload, or null. */
export const whyRefused = (
  payloads: ProviderAdapter["Service"]["payloads"],
  type: string,
  payload: Schema.Json
): Effect.Effect<string | null> => {
  if (payloads === undefined) return Effect.succeed(null)
  const decode = payloadDecoders(payloads).get(type)
  if (decode === undefined) return Effect.succeed(`The adapter must declare a payload for the type ${type}`)
  return Effect.match(decode(payload), {
    onSuccess: () => null,
    onFailure: (members) => members.map(({ message, path }) => [...path, message].join(": ")).join("; ")
  })
}

/** A submission. `send_before` is an hour from now, or the given distance. */
export const submitting =
  (subject: Subject, id: OperationId = operationIds.own, sendBefore: Duration.Input = "1 hour"): Call =>
  (adapter, now) =>
    Effect.gen(function*(): Effect.fn.Return<Said, NotSent | Uncertain> {
      const refused = yield* whyRefused(adapter.payloads, subject.operation.type, subject.payload)
      if (refused !== null) return { _tag: "InvalidSample" }
      const operation = operationOf(subject, id, DateTime.addDuration(now, sendBefore))
      return withDeclaration(adapter, yield* adapter.submit(operation, subject.payload))
    }).pipe(
      Effect.catch((failure) => Effect.succeed<Said>(failure)),
      Effect.catchDefect(() => Effect.succeed(noResult("the call died")))
    )

/** A status read, by the reference or, if that is null, by the id. */
export const reading = (
  subject: Subject,
  reference: string | null,
  sendBefore: Duration.Input = "1 hour",
  id: OperationId = operationIds.own
): Call =>
(adapter, now) =>
  Effect.suspend(() =>
    adapter.readStatus(
      operationOf(subject, id, DateTime.addDuration(now, sendBefore)),
      reference as ProviderReference | null,
      ...readNeedsPayload(adapter, reference as ProviderReference | null) ? [subject.payload] : []
    )
  ).pipe(
    Effect.map((answer): Said => withDeclaration(adapter, answer)),
    Effect.catchDefect(() => Effect.succeed(noResult("the call died")))
  )

/** Milliseconds of real time between two steps of the clock. */
const pause = 5

/** Lets sockets and timers of the process run. */
const turn: Effect.Effect<void> = Effect.callback((resume) => {
  const timer = setTimeout(() => resume(Effect.void), pause)
  return Effect.sync(() => clearTimeout(timer))
})

/**
 * Waits for the end of a call. The clock moves by small steps, between which the answer can arrive. If only a deadline can end
 * the call, the steps are long once the request has arrived. A call that ignores this clock is interrupted after `patience`.
 */
const ending = Effect.fnUntraced(function*(fiber: Fiber.Fiber<Said>, subject: Subject, hangs: () => boolean) {
  for (let turns = 0; turns * pause < subject.patience; turns++) {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return Exit.isSuccess(exit) ? exit.value : noResult("the call was interrupted")
    yield* turn
    yield* TestClock.adjust(hangs() ? "2 seconds" : "50 millis")
  }
  yield* Effect.forkDetach(Fiber.interrupt(fiber))
  return noResult("the call did not end, and was interrupted")
})

/** Runs the calls in turn, with one adapter. Yields what the first one said, and what the bank saw of all. */
export const observe = (
  subject: Subject,
  bank: ContractBank,
  calls: ReadonlyArray<Call>,
  isSilent: boolean
): Effect.Effect<Observation> =>
  Effect.gen(function*() {
    yield* TestClock.setTime(Date.now())
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) => Scope.close(scope, exit))
    const layer = subject.adapter(bank.baseUrl).pipe(Layer.provide(subject.client))
    const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
    const adapter = yield* Effect.provide(ProviderAdapter, context)
    const said: Array<Said> = []
    for (const call of calls) {
      const before = bank.seen().requests.length
      const fiber = yield* Effect.forkChild(call(adapter, yield* DateTime.now))
      said.push(yield* ending(fiber, subject, () => isSilent && bank.seen().requests.length > before))
    }
    // A retry that the adapter left behind arrives now.
    yield* TestClock.adjust("1 minute")
    yield* turn
    yield* turn
    return { adapter, said: said[0] ?? noResult("no call"), seen: bank.seen() }
  }).pipe(Effect.scoped, Effect.provide(TestClock.layer()), Effect.orDie)

/** Loads the adapter, and yields the payloads that it declares. */
export const declaredPayloads = (subject: Subject, bank: ContractBank) =>
  Effect.map(
    Effect.scoped(
      Layer.build(Layer.fresh(subject.adapter(bank.baseUrl).pipe(Layer.provide(subject.client))))
    ),
    (context) => Effect.runSync(Effect.provide(ProviderAdapter, context)).payloads
  ).pipe(Effect.orDie)
