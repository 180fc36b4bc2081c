/**
 * Why a grant may not read, from the standing that a statement returned beside the operations.
 */
import {
  type GrantIdentity,
  type GrantRefusal,
  GrantUnknown,
  operationsRead,
  refusal,
  standingFor
} from "../../../domain/Grant.ts"
import { goodStanding, standingOf } from "../grantStanding.ts"

/** `standing` is that of the first row; undefined if the statement returned none. Null: the grant may read. */
export const refusalOf = (identity: GrantIdentity, standing: unknown): GrantRefusal | null => {
  if (standing === goodStanding && identity.limited_to === undefined) return null
  return typeof standing === "number"
    ? refusal(standingFor(identity, standingOf(standing), operationsRead), operationsRead)
    : new GrantUnknown()
}
