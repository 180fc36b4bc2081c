/**
 * The answers of the sandbox to status reads, of one submission or of a list, with the states that the faults let them show.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { badGateway, type Demand, type RequestHead } from "./Dialect.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { foreignAnswer, type Reply, type ReplyOptions, strikesOn, type StruckFaults } from "./Reply.ts"
import { foreignKnown, knownAt, type KnownSubmission } from "./SandboxOutcome.ts"
import { type Entries, entryOf, type Fate, knownFate } from "./SubmissionEntries.ts"

export type StatusRead = Extract<Demand, { readonly _tag: "ReadByKey" | "ReadByReference" | "List" }>

/** The newest first, with the states that the faults let a read show. */
const allShown = (options: ReplyOptions, entries: Entries, now: number) =>
  [...entries.byReference.values()].toReversed().flatMap((key) => {
    const fate = knownFate(entries, key)
    if (fate?.outcome !== "accepted") return []
    const attempt = ++entryOf(entries, key).reads
    const faults = strikesOn(options, { key, stage: "status", attempt, instructed: fate.instructed })
    const shown = shownAt(key, fate, now, attempt, faults)
    const isForeign = faults.find("foreign_answer") !== null
    return [...isForeign ? [foreignKnown(options.seed, key, fate.echo, now)] : [], ...shown === null ? [] : [shown]]
  })

/** Faults on the way strike the answer, and those of a status its entries. */
const list = (
  options: ReplyOptions,
  entries: Entries,
  { after = null, answer, limit, matches = () => true }: Extract<StatusRead, { readonly _tag: "List" }>,
  attempt: number
): Effect.Effect<Reply> =>
  Clock.clockWith((clock) =>
    Effect.sync(() => {
      const faults = strikesOn(options, { key: "list", stage: "status", attempt, instructed: undefined })
      return {
        slow: faults.find("slow")?.milliseconds ?? 0,
        answer: () => {
          const shown = allShown(options, entries, clock.currentTimeMillisUnsafe())
          const found = shown.filter((one) => one !== "bad_gateway")
          if (found.length < shown.length) return badGateway
          const matching = found.filter(matches)
          // After an unknown reference the list begins anew, and leaves nothing out.
          const start = matching.findIndex(({ status }) => status.reference === after) + 1
          return answer(matching.slice(start, start + limit), matching.length > start + limit)
        },
        ...faults.onTheWay()
      }
    })
  )

/** Makes the function that answers status reads. */
export const makeRead = (options: ReplyOptions, entries: Entries) => {
  let readsOfUnknown = 0
  let lists = 0
  return (demand: StatusRead, head: RequestHead): Effect.Effect<Reply> => {
    if (demand._tag === "List") return list(options, entries, demand, ++lists)
    return Clock.clockWith((clock) =>
      Effect.sync(() => {
        const key = demand._tag === "ReadByKey" ? demand.key : entries.byReference.get(demand.reference)
        const entry = key === undefined ? undefined : entries.byKey.get(key)
        // A read of an unknown key adds no entry: otherwise reads could fill the memory.
        const attempt = entry === undefined ? ++readsOfUnknown : ++entry.reads
        const name = key ?? Object.values(demand)[1]!
        const fate = () => key === undefined ? undefined : knownFate(entries, key)
        const faults = strikesOn(options, { key: name, stage: "status", attempt, instructed: fate()?.instructed })
        return {
          slow: faults.find("slow")?.milliseconds ?? 0,
          answer: () => {
            const now = clock.currentTimeMillisUnsafe()
            if (faults.find("foreign_answer") !== null) return foreignAnswer(options, name, fate(), head, now)
            const shown = key === undefined ? null : shownAt(key, fate(), now, attempt, faults)
            if (shown === "bad_gateway") return badGateway
            const { write } = options.dialect
            return write(shown === null ? { _tag: "NotFound", demand } : { _tag: "Status", known: shown }, head)
          },
          ...faults.onTheWay()
        }
      })
    )
  }
}

/** What a read shows. Null: the submission is not known. */
const shownAt = (
  key: SubmissionKey,
  fate: Fate | undefined,
  now: number,
  attempt: number,
  faults: StruckFaults
): KnownSubmission | "bad_gateway" | null => {
  const settlement = fate?.settlement
  const truth = settlement === undefined ? null : knownAt(key, settlement, fate!.echo, now)
  if (settlement === undefined || truth === null) return null
  const hidden = faults.find("not_found_for")
  if (hidden !== null && now < settlement.effective_at + hidden.milliseconds) return null
  const flapping = faults.find("flapping_status")
  if (flapping === null || attempt > flapping.reads) return truth
  // In turn. A final status among them is always the true one.
  const { idempotency_key, reference } = truth.status
  const pending = { ...truth, status: { reference, idempotency_key, status: "pending" as const }, settledAt: null }
  const shown = [pending, truth, null, "bad_gateway" as const]
  return shown[(attempt - 1) % 4]!
}
