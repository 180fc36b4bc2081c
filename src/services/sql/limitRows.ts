/** Limits in SQL: refusals of the function `limit_refusal`, and what remains of limits. */
import * as BigDecimal from "effect/BigDecimal"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { isSqlError } from "effect/sql/SqlError"
import {
  type Limit,
  LimitExceeded,
  type LimitRefusal,
  OperationNotCovered,
  PayeeNotAllowed,
  type RemainingLimit,
  TermsRequired
} from "../../domain/AuthorizationDetails.ts"
import { type GrantIdentity, GrantUnknown } from "../../domain/Grant.ts"
import { formatAmount } from "../../domain/Terms.ts"
import { sqlState, storeFailure } from "../StoreUnavailable.ts"

interface LimitRow {
  readonly limit: Limit
  readonly remaining: string
  /** Milliseconds since the epoch. */
  readonly resets_at: number | null
}

/** A refusal of `limit_refusal`. */
export type LimitRefusalRow =
  | { readonly reason: "operation_type" | "currency" | "payee" | "terms" }
  | { readonly reason: "limit" } & LimitRow

const fromRow = ({ limit, remaining, resets_at }: LimitRow) => ({
  limit,
  remaining: formatAmount(BigDecimal.fromStringUnsafe(remaining), limit.currency),
  resets_at: resets_at === null ? null : DateTime.makeUnsafe(resets_at)
})

export const toLimitRefusal = (row: LimitRefusalRow): LimitRefusal => {
  switch (row.reason) {
    case "limit":
      return new LimitExceeded(fromRow(row))
    case "payee":
      return new PayeeNotAllowed()
    case "terms":
      return new TermsRequired()
    default:
      return new OperationNotCovered({ missing: row.reason })
  }
}

/** An element of `remainingOf`. */
export interface RemainingRow extends LimitRow {
  readonly types: ReadonlyArray<string> | null
}

export const toRemainingLimit = ({ types, ...row }: RemainingRow): RemainingLimit => ({
  ...types === null ? {} : { operation_types: types },
  ...fromRow(row)
})

/**
 * Limits whose time zone the database lacks, because its time zones are older than those of this process: they cannot be held. Every
 * other failure stays what it is. `message` has the name of the zone.
 */
export const orUnenforceable = <A, E, R, E2>(
  statement: Effect.Effect<A, E, R>,
  orElse: (message: string) => Effect.Effect<never, E2>
): Effect.Effect<A, E | E2, R> =>
  Effect.catchIf(
    statement,
    (error) => isSqlError(error) && sqlState(error) === "22023",
    (error) => orElse(storeFailure(error) ?? "unknown time zone")
  )

/** The same for the limits of a credential: it is refused as an unknown one, and the log says why. */
export const orRefusedCredential = <A, E, R>(
  { authorization_details, grant_id }: GrantIdentity,
  statement: Effect.Effect<A, E, R>
): Effect.Effect<A, E | GrantUnknown, R> =>
  authorization_details === undefined ?
    statement :
    orUnenforceable(statement, (reason) =>
      Effect.logWarning("Token refused: its limits cannot be held").pipe(
        Effect.annotateLogs({ grant_id, reason }),
        Effect.andThen(Effect.fail(new GrantUnknown()))
      ))

/** What remains of the limits of the grant `g`, as JSON. The parameter has the limits of the credential, or null. */
export const remainingOf = (credential: string): string => `remaining_limits(g.id, g.client_id, ${credential}::jsonb)`
