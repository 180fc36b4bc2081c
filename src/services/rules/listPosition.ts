/**
 * The position of a list of operators, as opaque text. It confers no authority: its reader may see every operation.
 */
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { idPattern } from "../../domain/Operation.ts"

/** The form of a sort value, as text. */
export type SortForm = "instant" | "position" | "name" | "id"

const forms: Readonly<Record<SortForm, RegExp>> = {
  // Milliseconds since the epoch, up to the year 9999.
  instant: /^\d{1,15}$/,
  position: /^\d{1,18}$/,
  name: /^[\x21-\x7e]{1,255}$/,
  id: idPattern
}

/** `list` names the index that the list follows, and its direction: a position of one list means nothing in another. */
export const encodePosition = (list: string, values: ReadonlyArray<string>): string =>
  Base64Url.encode(JSON.stringify([1, list, ...values]))

/** The sort values of a position. Null: it is malformed, or of another list. */
export const decodePosition = (
  text: string,
  list: string,
  sort: ReadonlyArray<SortForm>
): ReadonlyArray<string> | null => {
  const values = Schema.Tuple([
    Schema.Literal(1),
    Schema.Literal(list),
    ...sort.map((form) => Schema.String.check(Schema.isPattern(forms[form])))
  ])
  const decoded = Schema.decodeUnknownOption(Schema.fromJsonString(values))(
    Result.getOrElse(Base64Url.decodeString(text), () => "")
  )
  return decoded._tag === "None" ? null : decoded.value.slice(2).map(String)
}
