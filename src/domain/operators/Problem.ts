/** What `status` and the console show of the ledger that needs people, and its form in JSON. */
import * as Schema from "effect/Schema"
import { ProviderName } from "../Grant.ts"
import { OperationState } from "../Operation.ts"
import { Timestamp } from "../Timestamp.ts"
import { QueueName } from "./OperatorView.ts"

/** Something that people should look at. */
export const Problem = Schema.Struct({
  /** A sentence without its full stop. */
  message: Schema.String,
  /** Since when: that of the oldest operation. Null: that is not known. */
  since: Schema.NullOr(Timestamp),
  /** What people do, in sentences. Commands are in backticks. */
  next: Schema.String,
  /** The operations that it is about, or among which they are. Null: it is not about operations. */
  operations: Schema.NullOr(Schema.Struct({
    provider: ProviderName,
    queue: Schema.optionalKey(QueueName),
    failure_code: Schema.optionalKey(Schema.String),
    states: Schema.optionalKey(Schema.Array(OperationState))
  }))
})
export type Problem = typeof Problem.Type

/** Which operations of the provider. */
export type ProblemFilter = Omit<NonNullable<Problem["operations"]>, "provider">
