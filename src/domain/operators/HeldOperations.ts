/** Held operations as operators see them together: how many, why, and until when. */
import * as Schema from "effect/Schema"

/**
 * - `timeline`: only a change of the timeline holds them, such as a failover.
 * - `hold_placed`: an operator, a move of the ledger, a worker or a comparison with the witness placed a hold.
 * - `acknowledged`: the provider has confirmed them, so they are never released.
 * - `approval`: they wait for the decision of a person, and were never sent.
 */
const HoldReason = Schema.Literals(["timeline", "hold_placed", "acknowledged", "approval"])

const HeldGroup = Schema.Struct({
  provider: Schema.String,
  reason: HoldReason,
  count: Schema.Number,
  /** Those that a reconciler has examined on the present timeline, or that were held before any claim. */
  examined: Schema.Number,
  /** When the last of the examined ones can be released one by one. */
  releasable_from: Schema.NullOr(Schema.DateTimeUtcFromString)
})

/** The last comparison with the witness. */
const WitnessCheck = Schema.Struct({
  at: Schema.DateTimeUtcFromString,
  result: Schema.Literals(["begun", "proven", "unsettled", "missing", "unprovable"]),
  released: Schema.Number,
  held: Schema.Number,
  missing: Schema.Array(Schema.Struct({
    worker: Schema.String,
    life: Schema.String,
    provider: Schema.String,
    batch: Schema.Number,
    present: Schema.Number
  }))
})

export const HeldOperations = Schema.Struct({
  held: Schema.Number,
  groups: Schema.Array(HeldGroup),
  /** Whether the ledger has a witness. Then only workers with it claim. */
  has_witness: Schema.Boolean,
  /** Whether the ledger was compared with its witness since the server started. */
  is_compared: Schema.Boolean,
  /** Null: there was no comparison. */
  witness_check: Schema.NullOr(WitnessCheck),
  /** The last comparison that held operations. */
  last_hold: Schema.NullOr(WitnessCheck)
})
export type HeldOperations = typeof HeldOperations.Type

/** What an operator does next. */
export const nextStepOf = (held: HeldOperations): string =>
  held.groups.length > 0 && held.last_hold?.result === "missing"
    ? "first stop the server that was replaced and its workers, if they may still run: the witness does not stop them. Then "
      + stepOf(held)
    : stepOf(held)

const stepOf = ({ groups: all, has_witness, is_compared, last_hold }: HeldOperations): string => {
  const groups = all.filter(({ reason }) => reason !== "approval")
  if (groups.length < all.length && groups.length === 0) {
    return "decide about the operations that wait for an approval: approvals list"
  }
  if (groups.length === 0) return "nothing: no operation is held"
  if (has_witness && !is_compared) return "wait for a worker to compare the ledger with its witness, or start one"
  const open = groups.filter(({ reason }) => reason !== "acknowledged")
  if (open.length === 0) return "wait: status reads settle what the providers confirmed"
  if (open.some(({ count, examined }) => examined < count)) {
    return "wait until the workers have examined all of them; status reads settle what the providers prove"
  }
  if (last_hold?.result !== "missing" && open.every(({ reason }) => reason === "hold_placed")) {
    return "operations show ID tells of each whether it was never sent: then release or cancel it. Ask the providers about the others"
  }
  const lost = last_hold?.result === "missing" ? " Sent claims were lost, so some were sent." : ""
  return `ask the providers about those that remain, then release each one that was never sent: operations release ID.${lost} `
    + "After a planned switchover that lost nothing: operations release --all --reason …"
}
