/**
 * Who acts next on an operation, when, and why, in sentences for operators. It plans nothing: it says what the worker, the rescuer
 * and the reconciler do with an operation in this situation.
 */
import * as DateTime from "effect/DateTime"
import { isTerminal, type OperationState } from "../Operation.ts"
import { isOfPayload, pauseReasons, sentToAccount } from "./FiguresForm.ts"
import type { Hold, NextAction, OperationSchedule, OperationStanding } from "./OperatorView.ts"

/** What the next action depends on. */
export interface Situation {
  readonly state: OperationState
  readonly under_review: boolean
  /** The provider once confirmed that it received the operation. */
  readonly acknowledged: boolean
  /** The operation was claimed on another timeline of the database than the present one. */
  readonly is_of_other_timeline: boolean
  /** The worker that put it off last lacked the key of its payload. It counts while it waits to be sent, or its claim is returned. */
  readonly lacks_key: boolean
  readonly schedule: OperationSchedule
  readonly standing: OperationStanding
  /** Why every worker that runs has paused the provider. Null: one of them sends to it, or none runs. */
  readonly pause: string | null
  /** What a person asks the provider, because reads may not settle the operation in its present state. */
  readonly question: string | null
  /** The answer of the last status read. */
  readonly answer: string | null
  /** Until when its provider may reverse the success. Null: its status is not read any more, or it did not succeed. */
  readonly reversible_until: DateTime.Utc | null
  /** The provider proved another outcome of an operation that failed or was cancelled. */
  readonly contradicted: boolean
}

/** The next action at an instant of the clock of the database. */
export const nextAction = (situation: Situation, now: DateTime.Utc): NextAction => {
  const planned = plannedAction(situation, now)
  if (!situation.under_review || planned.by === "operator" || planned.by === "none") return planned
  // A review changes nothing of what the components do.
  return { ...planned, reason: `It is under review. ${planned.reason}` }
}

const plannedAction = (situation: Situation, now: DateTime.Utc): NextAction => {
  const { schedule, state } = situation
  if (isTerminal(state)) return actionOnSettled(situation, now)
  switch (state) {
    case "accepted":
      return schedule.hold === null ? actionOnFree(situation, now) : actionOnHeld(situation, schedule.hold, now)
    case "submitting":
      return schedule.return_reason === null
        ? actionOnClaim(situation, now)
        : actionOnReturned(situation, schedule.return_reason, now)
    default:
      return actionOnSubmitted(situation, now)
  }
}

const actionOnSettled = (situation: Situation, now: DateTime.Utc): NextAction => {
  const { contradicted, reversible_until, schedule, standing, state } = situation
  if (contradicted) {
    return {
      by: "operator",
      action: "Ask the provider what it did, and stop a second request of the same.",
      at: null,
      reason: `It stays ${state}, and its provider proved otherwise since.`
    }
  }
  if (reversible_until === null) {
    return { by: "none", action: "Nothing is left to do.", at: null, reason: "It is settled." }
  }
  const obstacle = obstacles(standing, "read")
  const reason = DateTime.isGreaterThan(reversible_until, now)
    ? `Its provider may reverse the success until ${iso(reversible_until)}.`
    : `Its provider might reverse the success until ${iso(reversible_until)}. A clear answer ends the reads.`
  return {
    by: "reconciler",
    action: obstacle === null ? "A reconciler reads its status again." : "A reconciler tries to read its status again.",
    at: unlessPast(schedule.due_at, now),
    reason: withObstacle(`It is settled. ${reason}`, obstacle)
  }
}

const iso = DateTime.formatIso

/** Null: the time has come, so the component acts as soon as it can. */
const unlessPast = (at: DateTime.Utc | null, now: DateTime.Utc) =>
  at !== null && DateTime.isGreaterThan(at, now) ? at : null

/** Why a worker leaves the operation unsent, or a reconciler does not read its status. Null: nothing in its consent. */
const obstacles = (
  { client_active, grant, may_read, may_send, provider_connected }: OperationStanding,
  purpose: "send" | "read"
): string | null => {
  const found = [
    ...client_active ? [] : ["Its client is inactive."],
    ...provider_connected ? [] : ["Its provider is disconnected."],
    ...purpose === "read" ? may_read ? [] : [noGrant[grant]] : may_send ? [] : [may_read ? noScopes : noGrant[grant]]
  ]
  return found.length === 0 ? null : found.join(" ")
}

const noScopes = "No live grant has all scopes of the grant that accepted it, and no other limits."

const noGrant = {
  live: "It has no live grant.",
  expired: "It has no live grant: the one that accepted it has expired.",
  revoked: "It has no live grant: the one that accepted it was revoked."
} as const

/** Why the operation is not sent: nothing allows it, or its provider is paused. Null: neither. */
const obstaclesToSend = ({ pause, standing }: Situation): string | null =>
  obstacles(standing, "send") ?? (pause === null ? null : `Its provider is paused: ${pause}.${endOfTry(pause)}`)

/** Whether the provider does not answer. */
const isAway = (pause: string | null): pause is string => pause?.startsWith(pauseReasons.circuit) === true

/** What comes of an operation that a worker tries while its provider does not answer. */
const endOfTry = (pause: string): string =>
  isAway(pause)
    ? " A try that never connects within sendWithin ends the operation as failed (provider_unreachable), never sent. One whose answer "
      + "is lost makes it indeterminate."
    : ""

/** The pause that a next action waits for. */
const waitingFor = ({ pause, standing }: Situation) =>
  pause === null || obstacles(standing, "send") !== null ? {} : { pause }

const actionOnFree = (situation: Situation, now: DateTime.Utc): NextAction => {
  const { schedule } = situation
  const at = unlessPast(schedule.due_at, now)
  const obstacle = obstaclesToSend(situation)
  if (schedule.waiting) {
    const reason = obstacle
      ?? "A worker found it not ready. Its consent allows it now. If it goes on waiting, the workers lack its payload key."
    return { by: "worker", action: "A worker tries it again.", at, reason, ...waitingFor(situation) }
  }
  if (obstacle === null) return { by: "worker", action: "A worker submits it.", at, reason: "It is ready." }
  const wait = waitingFor(situation)
  const action = wait.pause === undefined
    ? "A worker tries it, and puts it off."
    : "A worker submits it after the pause."
  return { by: "worker", action, at, reason: obstacle, ...wait }
}

const causes = {
  approval: "It waits for an approval.",
  placed: "A hold was placed.",
  failover: "The database failed over, and may have lost a claim."
} as const
const operatorCauses = {
  ...causes,
  placed: "An operator or a late report holds it.",
  failover: `${causes.failover} An operator or a late report holds it, too.`
} as const

const actionOnHeld = (situation: Situation, hold: Hold, now: DateTime.Utc): NextAction => {
  const { acknowledged, question, schedule, standing } = situation
  const at = unlessPast(schedule.due_at, now)
  const cause = hold.by_operator === true ? operatorCauses[hold.kind] : causes[hold.kind]
  if (hold.kind === "approval") {
    const held = hold.by_operator === true
      ? " An operator or a late report holds it, so an approval leaves it held."
      : ""
    const reason = `${cause} Without a decision in time it is cancelled.${held}`
    return { by: "operator", action: "Its resource owner or an operator approves or denies it.", at: null, reason }
  }
  if (schedule.unsent) {
    const reason = "An operator holds it, and it was never sent."
    return { by: "operator", action: "An operator may release or cancel it.", at: null, reason }
  }
  const received = `${cause} Its provider received it, so it is never released.`
  if (!hold.examined) {
    const reason = acknowledged ? received : `${cause} It cannot be released before the examination.`
    return { by: "reconciler", action: "A reconciler examines it.", at, reason }
  }
  const obstacle = obstacles(standing, "read")
  const reads = obstacle === null ? "Status reads go on." : `Status reads wait. ${obstacle}`
  if (question !== null) return askProvider(situation, question, cause, obstacle, null)
  if (acknowledged || hold.releasable_from === null) {
    return { by: "reconciler", action: readAction(schedule, obstacle), at, reason: withObstacle(received, obstacle) }
  }
  const from = unlessPast(hold.releasable_from, now)
  const when = from === null
    ? "Release it only if its provider never received it."
    : "Until then an earlier claim holder may send it, if there is one."
  return { by: "operator", action: "An operator may release it.", at: from, reason: `${cause} ${when} ${reads}` }
}

const actionOnClaim = ({ pause, schedule }: Situation, now: DateTime.Utc): NextAction => {
  const { claimed_by, due_at, send_before } = schedule
  const rescue = {
    by: "rescuer",
    action: "The rescuer moves it to indeterminate.",
    at: unlessPast(due_at, now)
  } as const
  if (send_before === null) return { ...rescue, reason: "It was claimed by hand, and no outcome is recorded yet." }
  if (!DateTime.isGreaterThan(send_before, now)) {
    return { ...rescue, reason: "The worker may send it no more, and has recorded no outcome." }
  }
  const worker = claimed_by === null ? "A worker" : `Worker ${claimed_by}`
  const lost = `If the worker is lost, the rescuer moves it to indeterminate${
    due_at === null ? "" : ` at ${iso(due_at)}`
  }.`
  const end =
    "If a request has left, and no answer comes, it becomes indeterminate, and status reads settle it. If the worker never connects "
    + `until ${iso(send_before)}, it ends as failed (provider_unreachable), never sent, or its claim is returned.`
  return {
    by: "worker",
    action: `${worker} has claimed it to send it. Whether its request has left is open until an outcome is recorded.`,
    at: null,
    reason: isAway(pause) ? `Its provider is paused: ${pause}. ${end} ${lost}` : lost,
    ...isAway(pause) ? { pause } : {}
  }
}

const actionOnReturned = (situation: Situation, why: string, now: DateTime.Utc): NextAction => {
  const { is_of_other_timeline, lacks_key, schedule } = situation
  if (is_of_other_timeline) {
    const reason = "The database failed over, and may have lost a later claim."
    return { by: "rescuer", action: "The rescuer moves it to indeterminate.", at: null, reason }
  }
  // The cause of a pause is mostly that of the return: the reason says it once.
  const isSame = situation.pause === why && obstacles(situation.standing, "send") === null
  const reason = isSame
    ? `The last worker sent nothing, and its provider is paused: ${why}.${endOfTry(why)}`
    : withObstacle(`The last worker sent nothing (${why}).`, obstaclesToSend(situation))
  const at = unlessPast(schedule.due_at, now)
  const lacking = "The workers lack its payload key: do not cancel it, give them the key."
  return {
    by: "worker",
    action: "A worker takes it over.",
    at,
    reason: withObstacle(reason, lacks_key ? lacking : null),
    ...waitingFor(situation)
  }
}

const actionOnSubmitted = (situation: Situation, now: DateTime.Utc): NextAction => {
  const { acknowledged, question, schedule, standing, state } = situation
  const { fence_started_at, fencing_until } = schedule
  const isFenced = fence_started_at !== null && !acknowledged
  const obstacle = isFenced ? obstaclesToSend(situation) : obstacles(standing, "read")
  const reason = state === "submitted"
    ? "Its provider received it. The outcome is open."
    : isFenced
    ? `A fence began at ${iso(fence_started_at)}. It is repeated until it is certain.`
    : "It may have been sent, so no worker sends it again."
  if (question !== null) return askProvider(situation, question, reason, obstacle, isFenced ? fencing_until : null)
  const repetition = obstacle === null ? "A reconciler repeats the fence." : "A reconciler tries to repeat the fence."
  return {
    by: "reconciler",
    action: isFenced ? repetition : readAction(schedule, obstacle),
    at: unlessPast(schedule.due_at, now),
    reason: withObstacle(reason, obstacle)
  }
}

/** The order of a fence may wait at the provider. Once the operation has ended, no fence cancels it. An earlier answer proves nothing. */
const cancelFence = (fencing_until: DateTime.Utc) =>
  "Cancel the order that waits under this key at the provider. "
  + `To record failed, ask a minute or more after ${iso(fencing_until)}, which each fence moves. `

/** What an operator does before a question that is open because the settings name another account. Empty: nothing. */
export const setBack = (answer: string | null, set: "Set" | "set"): string =>
  answer?.startsWith(sentToAccount) === true
    ? `${set} the address and the account back: ${answer.slice("not asked, because ".length)}. Or `
    : ""

/** `fencing_until`: of the fence that has not settled it. Null: none began. */
const askProvider = (
  { answer }: Situation,
  question: string,
  reason: string,
  obstacle: string | null,
  fencing_until: DateTime.Utc | null
): NextAction => {
  const first = setBack(answer, "Set")
  const cancel = fencing_until === null ? "" : cancelFence(fencing_until)
  const ask = `${cancel}Ask the provider, and record its answer: ${question}`
  const reads = fencing_until === null ? "Status reads" : "Fences"
  const isWaiting = obstacle !== null || first !== ""
  return {
    by: "operator",
    action: first === "" ? ask : `${first}${ask[0]!.toLowerCase()}${ask.slice(1)}`,
    at: null,
    reason: withObstacle(`${reason} ${reads} ${isWaiting ? "wait" : "go on, but may never settle it"}.`, obstacle)
  }
}

const readAction = ({ reads }: OperationSchedule, obstacle: string | null) =>
  obstacle === null ? `A reconciler reads its status (read ${reads + 1}).` : "A reconciler tries to read its status."

const withObstacle = (reason: string, obstacle: string | null) => obstacle === null ? reason : `${reason} ${obstacle}`

/** Whether a reason begins so. */
const begins = (start: string) => (reason: string): boolean => reason.startsWith(start)

/** Whether a reason is an answer that the adapter does not declare, and the rest fits. */
const undeclared = (rest: RegExp) => (reason: string): boolean =>
  reason.startsWith(`${pauseReasons.undeclared}: `) && rest.test(reason.slice(pauseReasons.undeclared.length + 2))

/** The steps. The first that fits is told. */
const pauseSteps: ReadonlyArray<readonly [fits: (reason: string) => boolean, next: string]> = [
  [
    (reason) => begins(pauseReasons.credentials)(reason) || undeclared(/^status 40[13]\b/)(reason),
    "Check the credentials of the provider, such as its key, and restart the workers with the right ones."
  ],
  [
    begins(pauseReasons.probe),
    "Check the base URL of the provider and the paths of its adapter, and restart the workers with the right ones. No operation is sent "
    + "before a probe passes."
  ],
  [
    undeclared(/status 404\b/),
    "Check the base URL of the provider and the paths of its adapter, and restart the workers with the right ones. Until then each "
    + "of their tries leaves one operation indeterminate."
  ],
  [
    undeclared(/^status 5\d\d\b/),
    "The provider fails: wait. A worker tries one operation at a time. If it lasts, ask the provider."
  ],
  [
    begins(pauseReasons.undeclared),
    "Compare the adapter with the documentation of the provider, and declare the answer. Until then each try of a worker "
    + "leaves one operation indeterminate."
  ],
  [
    begins(pauseReasons.circuit),
    "Check the base URL of the provider. If it is right, wait. If it lasts, ask the provider, and check the network of the workers."
  ],
  [begins(pauseReasons.clock), "Set the clock of the machine."],
  [
    isOfPayload,
    "The operations were never sent. If all of their type fail so, repair the adapter. If a request is wrong, cancel its operation: "
    + "`financial-agents-gateway operations cancel ID`."
  ]
]

const otherStep = "Repair the reason: it is in the settings, the adapter or the network of the worker."

/** The first step that fits the reason of a pause. Then the workers go on by themselves. */
export const stepOnPause = (reason: string): string => pauseSteps.find(([fits]) => fits(reason))?.[1] ?? otherStep
