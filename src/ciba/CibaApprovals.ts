/**
 * The room `ciba`: decisions of resource owners on their own devices, by OpenID Connect CIBA. Read this file first: it asks about an
 * approval, and records the answer by `Approvals.decide`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as Mac from "effect/crypto/Mac"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Fiber from "effect/Fiber"
import * as FiberMap from "effect/FiberMap"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Approval, Decision, DecisionRefused } from "../domain/Approval.ts"
import { ResourceOwner } from "../domain/Grant.ts"
import { OperationId } from "../domain/Operation.ts"
import { betweenParts, isTerms, type Terms } from "../domain/Terms.ts"
import { isJsonObject, parseJson, readBody } from "../http/JsonExchange.ts"
import type { AuthorizationMisconfigured } from "../oauth/ClientAuthentication.ts"
import type { IssuerRefused } from "../oauth/OpenIdProvider.ts"
import { Approvals } from "../services/Approvals.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import {
  type Asked,
  type BackchannelSettings,
  type IdTokenClaims,
  type LoginHint,
  makeBackchannelAuthentication
} from "./BackchannelAuthentication.ts"

/** The OpenID provider of the resource owners, and how it knows them. */
export interface CibaOptions extends BackchannelSettings {
  /** How the provider tells that a person has answered. Default: `poll`. For `ping`, serve `notification` at the registered URL. */
  readonly mode?: "poll" | "ping"
  /** The name of a resource owner at the provider. Null: it knows none, and no one is asked. */
  readonly hintOf: (owner: ResourceOwner) => Effect.Effect<LoginHint | null>
  /** The resource owner that a verified ID token proves, by `sub`. Null: none that you know. */
  readonly ownerOf: (claims: IdTokenClaims) => Effect.Effect<ResourceOwner | null>
  /**
   * What the person reads on the own device. Deterministic, and within the limits of the provider. Null: these terms do not fit. Default:
   * `bindingMessageOf(20)`, which the defaults of Keycloak and `oidc-provider` accept.
   */
  readonly bindingMessage?: (terms: Terms) => string | null
}

const reasons = {
  not_waiting: "waits for no decision now",
  unreadable: "has terms that this process cannot show",
  too_long: "has terms that do not fit into a binding message",
  no_hint: "has an owner that the OpenID provider does not know",
  expired: "was not decided in time at the OpenID provider",
  refused: "has no valid answer of the OpenID provider",
  unavailable: "could not be asked about: the OpenID provider does not answer"
} as const

/** The provider gave no decision. The operation waits on. */
export class CibaUndecided extends Schema.TaggedError<CibaUndecided>()("CibaUndecided", {
  id: OperationId,
  reason: Schema.Literals(Object.keys(reasons) as ReadonlyArray<keyof typeof reasons>),
  /** For the log. Contains no secret. */
  detail: Schema.NullOr(Schema.String)
}) {
  override get message() {
    return `operation ${this.id} ${reasons[this.reason]}${this.detail === null ? "" : `: ${this.detail}`}`
  }
}

const undecided = (id: OperationId, reason: CibaUndecided["reason"], detail: string | null = null) =>
  new CibaUndecided({ id, reason, detail })

/** A question that waits for a notification. */
interface Waiting {
  readonly token: string
  /** Null until the provider has accepted the question: its notification may overtake that response. */
  authReqId: string | null
  /** The last `auth_req_id` that was notified. */
  readonly notified: Queue.Queue<string>
}

/** The way through the operations of one owner that wait. */
interface OwnerWalk {
  /** The last operation of the page before. Absent: the next page is the first. */
  after?: Approval
  /** Operations that were asked about. */
  readonly begun: Set<OperationId>
  /** Those of `begun` that still wait, as far as this walk has come. */
  readonly seen: Set<OperationId>
}

/** Most questions of `askPending` at a time in this process. */
const mostQuestions = 200

/** Most questions at a time to one owner. */
const mostOfOwner = 5

/** Owners of one look, and operations of each of them. */
const ownersOfLook = 200
const listedOfOwner = 20

/** Between two looks at what waits, and at the approval of a question that waits for a notification. */
const lookEvery = "5 seconds"

/** Most bytes of a notification. */
const maxNotification = 4096

/** Seconds that a poll waits longer after `slow_down` (CIBA §11). */
const slowDown = 5

/** Most seconds between two polls of a provider that does not answer, or sends no notification. */
const slowest = 60

/** The name in records of answers that prove no person. It decides nothing. */
const unproven = ResourceOwner.make("unproven")

const encoder = new TextEncoder()
const isSame = (given: string, expected: string) => Mac.timingSafeEqual(encoder.encode(given), encoder.encode(expected))

/** Decisions of resource owners at their OpenID provider. Provide `hintOf` and `ownerOf`, and run `askPending` in one process. */
export class CibaApprovals extends Context.Service<CibaApprovals, {
  /**
   * Asks the resource owner at the OpenID provider, waits for the answer, and records it as the decision of the owner. A call for an
   * operation about which this process asks already shares that question. The question goes on if the caller leaves.
   *
   * Without a decision the operation waits on: `CibaUndecided`. Its reason is `not_waiting` if another way has decided meanwhile. An answer
   * that proves another person, or nothing, is refused, and recorded as an action of the operation.
   */
  readonly ask: (id: OperationId) => Effect.Effect<Approval, CibaUndecided | DecisionRefused | StoreUnavailable>
  /**
   * Asks about every operation that waits, once in the life of the process, and again where the provider could not be asked. Run it in one
   * process of your application: two would ask the person twice.
   */
  readonly askPending: Effect.Effect<never>
  /** Answers the notification endpoint of the mode `ping` (CIBA §10.2): 204, or 401 to a request that is no notification of a question. */
  readonly notification: Effect.Effect<HttpServerResponse.HttpServerResponse, never, HttpServerRequest>
}>()("financial-agents-gateway/ciba/CibaApprovals") {
  static readonly layer = (
    options: CibaOptions
  ): Layer.Layer<CibaApprovals, AuthorizationMisconfigured, Approvals | Digest.Digest | SecureRandom.SecureRandom> =>
    Layer.effect(CibaApprovals, make(options))
}

const make = Effect.fnUntraced(function*(options: CibaOptions) {
  const { bindingMessage = bindingMessageOf(20), hintOf, issuer, mode = "poll", ownerOf } = options
  const approvals = yield* Approvals
  const digests = yield* Digest.Digest
  const random = yield* SecureRandom.SecureRandom
  const provider = yield* makeBackchannelAuthentication(options)
  const questions = yield* FiberMap.make<OperationId, Approval, CibaUndecided | DecisionRefused | StoreUnavailable>()
  const waiting = new Set<Waiting>()

  const prepare = Effect.fnUntraced(function*(id: OperationId) {
    const approval = yield* approvals.find(id)
    if (approval?.state !== "pending") return yield* undecided(id, "not_waiting")
    if (!isTerms(approval.terms)) return yield* undecided(id, "unreadable")
    const message = bindingMessage(approval.terms)
    if (message === null) return yield* undecided(id, "too_long")
    const hint = yield* hintOf(approval.resource_owner)
    if (hint === null) return yield* undecided(id, "no_hint")
    const left = Math.floor((approval.expires_at.epochMilliseconds - (yield* Clock.currentTimeMillis)) / 1000)
    if (left < 1) return yield* undecided(id, "not_waiting")
    return { approval, message, hint, left }
  })

  /** Whether no one has decided yet, nor ended the operation. A ledger that cannot be read ends no question. */
  const isPending = (id: OperationId) =>
    Effect.orElseSucceed(Effect.map(approvals.find(id), (approval) => approval?.state === "pending"), () => true)

  /**
   * Polls until there is an answer, or the approval is no longer pending. After a notification or reminder it polls once, and then waits
   * for the next one.
   */
  const awaitAnswer = Effect.fnUntraced(function*(id: OperationId, asked: Asked, notified: Queue.Queue<string> | null) {
    let interval = asked.interval
    let isToldToWait = false
    while (true) {
      let mayPoll = true
      if (notified === null || isToldToWait) yield* Effect.sleep(interval * 1000)
      else mayPoll = Option.contains(yield* Effect.timeoutOption(Queue.take(notified), lookEvery), asked.authReqId)
      if (!(yield* isPending(id))) return yield* undecided(id, "not_waiting")
      if (!mayPoll) continue
      isToldToWait = false
      const answer = yield* Effect.result(provider.poll(asked))
      if (answer._tag === "Success") return answer.success
      const failure = answer.failure
      if (failure._tag === "IssuerUnavailable") {
        interval = Math.min(Math.max(interval, slowest), interval * 2)
        isToldToWait = true
      } else if (failure.error === "slow_down") {
        interval += slowDown
        isToldToWait = true
      } else if (failure.error !== "authorization_pending") return yield* failure
    }
  })

  const decisionOf = Effect.fnUntraced(function*({ operation_id, request_digest }: Approval, { authReqId }: Asked) {
    const digest = yield* digests.digestHex(Digest.sha256, encoder.encode(authReqId))
    return (name: ResourceOwner, decision: Decision["decision"]): Decision => ({
      operation_id,
      request_digest,
      decision,
      decider: { as: "owner", name },
      reason: `CIBA at ${issuer}, SHA-256 of auth_req_id ${digest}`
    })
  })

  /** Records the answer as the decision of the owner that it proves, who need not be that of the operation. */
  const conclude = Effect.fnUntraced(function*(
    approval: Approval,
    asked: Asked,
    answer: Effect.Effect<IdTokenClaims, IssuerRefused | CibaUndecided>
  ) {
    const id = approval.operation_id
    const decisionBy = yield* decisionOf(approval, asked)
    const refuse = Effect.fnUntraced(function*(detail: string) {
      const refused = undecided(id, "refused", detail)
      yield* approvals.recordRefused(decisionBy(unproven, "approved"), refused.message)
      return yield* refused
    })
    const result = yield* Effect.result(answer)
    if (result._tag === "Success") {
      const owner = yield* ownerOf(result.success)
      return yield* owner === null
        ? refuse("its subject is no known resource owner")
        : approvals.decide(decisionBy(owner, "approved"))
    }
    if (result.failure._tag === "CibaUndecided") return yield* result.failure
    const { error, reason } = result.failure
    if (error === null) return yield* refuse(reason)
    if (error === "access_denied") return yield* approvals.decide(decisionBy(approval.resource_owner, "denied"))
    return yield* undecided(id, error === "expired_token" ? "expired" : "refused", error)
  })

  const askAtProvider = Effect.fnUntraced(function*(id: OperationId, subscribed: Waiting | null) {
    const { approval, hint, left, message } = yield* prepare(id)
    const notificationToken = subscribed?.token ?? null
    const asked = yield* Effect.mapError(
      provider.ask({ hint, bindingMessage: message, requestedExpiry: left, notificationToken }),
      ({ _tag, reason }) => undecided(id, _tag === "IssuerRefused" ? "refused" : "unavailable", reason)
    )
    const seconds = Math.min(left, asked.expiresIn)
    if (subscribed !== null) {
      subscribed.authReqId = asked.authReqId
      // Notifications may be lost: each minute, and five seconds before the end, counts as one.
      const remind = Queue.offer(subscribed.notified, asked.authReqId)
      yield* Effect.forkChild(Effect.forever(Effect.delay(remind, Math.max(slowest, asked.interval) * 1000)))
      yield* Effect.forkChild(Effect.delay(remind, Math.max(seconds - 5, seconds / 2) * 1000))
    }
    const answer = Effect.timeoutOrElse(awaitAnswer(id, asked, subscribed?.notified ?? null), {
      duration: seconds * 1000,
      orElse: () => Effect.fail(undecided(id, "expired"))
    })
    return yield* conclude(approval, asked, answer)
  })

  const subscribe = Effect.acquireRelease(
    Effect.gen(function*() {
      const subscribed: Waiting = {
        token: Base64Url.encode(yield* random.randomBytes(32)),
        authReqId: null,
        notified: yield* Queue.sliding<string>(1)
      }
      waiting.add(subscribed)
      return subscribed
    }),
    (subscribed) => Effect.sync(() => waiting.delete(subscribed))
  )

  const ask = Effect.fn("CibaApprovals.ask")(function*(id: OperationId) {
    const running = FiberMap.getUnsafe(questions, id)
    if (Option.isSome(running)) return yield* Fiber.join(running.value)
    const question = mode === "poll"
      ? askAtProvider(id, null)
      : Effect.scoped(Effect.flatMap(subscribe, (subscribed) => askAtProvider(id, subscribed)))
    return yield* Fiber.join(yield* FiberMap.run(questions, id, question))
  })

  const askPending = Effect.gen(function*() {
    /** The questions under way, also those that the provider could not be asked. */
    const underWay = new Map<OperationId, Approval>()

    const ofOwner = (owner: ResourceOwner) =>
      [...underWay.values()].filter(({ resource_owner }) => resource_owner === owner).length

    /**
     * A client leaves as many places free as it has, and the last tenth of what it may have is for owners who are not asked yet. So an
     * owner who does not answer stops no other one, and a client with many of them stops no other client.
     */
    const mayAsk = ({ client_id, resource_owner }: Approval) => {
      const ofClient = [...underWay.values()].filter((other) => other.client_id === client_id).length
      return ofOwner(resource_owner) < Math.min(mostOfOwner, (mostQuestions - underWay.size - ofClient) / 20)
    }

    const askOne = (approval: Approval) =>
      ask(approval.operation_id).pipe(
        Effect.tapError((failure) => Effect.logWarning("No decision by CIBA", failure)),
        Effect.retry({
          while: (failure) =>
            failure._tag === "StoreUnavailable" || failure._tag === "CibaUndecided" && failure.reason === "unavailable",
          schedule: Schedule.spaced(lookEvery)
        }),
        Effect.tap(({ state }) => Effect.logInfo(`Operation ${approval.operation_id} is ${state} by CIBA`)),
        Effect.ignore,
        Effect.ensuring(Effect.sync(() => underWay.delete(approval.operation_id)))
      )

    /** What was asked of the owners whose operations wait. */
    const walks = new Map<ResourceOwner, OwnerWalk>()

    /** Asks about the next operations of the owner. It passes those that were asked about, page by page, and begins again at the end. */
    const askOwner = Effect.fnUntraced(function*(resource_owner: ResourceOwner) {
      const walk = walks.get(resource_owner) ?? { begun: new Set(), seen: new Set() }
      walks.set(resource_owner, walk)
      const listed = yield* approvals.pending({
        resource_owner,
        limit: listedOfOwner,
        ...walk.after && { after: walk.after }
      })
      for (const approval of listed) {
        const id = approval.operation_id
        if (!walk.begun.has(id)) {
          if (ofOwner(resource_owner) === mostOfOwner) return
          // Behind it may be one of another client.
          if (!mayAsk(approval)) continue
          walk.begun.add(id)
          underWay.set(id, approval)
          yield* Effect.forkChild(askOne(approval))
        }
        walk.seen.add(id)
      }
      if (listed.length < listedOfOwner) walks.set(resource_owner, { begun: walk.seen, seen: new Set() })
      else walk.after = listed.at(-1)!
    })

    let after: ResourceOwner | undefined
    let seen = new Set<ResourceOwner>()
    const look = Effect.gen(function*() {
      const owners = yield* approvals.owners({ limit: ownersOfLook, ...after && { after } })
      // In another order each time: where places are few, none is always the last.
      for (const owner of yield* Random.shuffle(owners)) {
        seen.add(owner)
        yield* askOwner(owner)
      }
      after = owners[ownersOfLook - 1]
      if (after !== undefined) return
      for (const owner of walks.keys()) if (!seen.has(owner)) walks.delete(owner)
      seen = new Set()
    })
    while (true) {
      yield* Effect.catch(look, (failure) => Effect.logWarning("CIBA could not read what waits", failure))
      yield* Effect.sleep(lookEvery)
    }
  })

  const isNotification = Effect.gen(function*() {
    const { headers, stream } = yield* HttpServerRequest
    const given = /^Bearer ([\w-]{43})$/i.exec(headers["authorization"] ?? "")?.[1] ?? ""
    const subscribed = [...waiting].filter(({ token }) => isSame(given, token))[0]
    if (subscribed === undefined) return false
    const body = yield* parseJson(yield* readBody(stream, maxNotification))
    const authReqId = isJsonObject(body) ? body["auth_req_id"] : undefined
    if (typeof authReqId !== "string" || !isSame(authReqId, subscribed.authReqId ?? authReqId)) return false
    return yield* Queue.offer(subscribed.notified, authReqId)
  })

  const notification = Effect.map(
    Effect.orElseSucceed(isNotification, () => false),
    (isValid) =>
      isValid
        ? HttpServerResponse.empty({ status: 204 })
        : HttpServerResponse.empty({ status: 401, headers: { "www-authenticate": "Bearer" } })
  )

  return CibaApprovals.of({ ask, askPending, notification })
})

/** Characters that common providers accept in the message; in a payee each other one becomes `?`. */
const unfit = /[^A-Za-z0-9\-._+/!#]/gu

/**
 * Makes binding messages of at most `length` characters, such as `70.00EUR/..4000`: amount, currency, and the payee if it fits; else its last
 * characters. Null: the person cannot be asked. Not even the amount fits, or the end of a payee with ` | ` would hide another part of it.
 */
export const bindingMessageOf = (length: number) => ({ amount, currency, payee }: Terms): string | null => {
  const money = `${amount}${currency}/`
  const shown = payee.replaceAll(unfit, "?")
  const room = length - money.length
  if (shown.length <= room) return money + shown
  return room < shortestEnd + 2 || payee.includes(betweenParts) ? null : `${money}..${shown.slice(2 - room)}`
}

/** Fewest last characters of a payee that tell it from others. */
const shortestEnd = 4
