/**
 * Text of providers, quoted so that a language model cannot take it for an instruction of the gateway.
 */
import type { Operation } from "../domain/Operation.ts"
import { maxMessageLength } from "../domain/OperationForm.ts"

/**
 * Characters that a model reads and a person does not see, or that change the layout. `\p{C}` are control and format characters,
 * unassigned and private ones, and lone surrogates. `\p{Z}` are spaces and separators; U+0020 stays. The next property adds
 * variation selectors, fillers and tags. U+2800 is a blank of Braille. The last four close a tag or a code fence in the prompt of
 * a host.
 */
const dangerous = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800<>&`]/gu

const escape = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`

/** Cuts between whole escapes. The ellipsis shows the cut. */
const joinUpTo = (maxLength: number, parts: ReadonlyArray<string>): string => {
  const whole = parts.join("")
  if (whole.length <= maxLength) return whole
  let cut = ""
  for (const part of parts) {
    if (cut.length + part.length >= maxLength) break
    cut += part
  }
  return `${cut}…`
}

/**
 * The operation with the message of its failure in quoted form. Hidden characters, and `<`, `>`, `&` and backticks, become visible
 * escapes such as `\u{202e}`. A host may show the member to its model without any encoding, so the escapes are in the text itself.
 * The message stays within the 1,024 UTF-16 units of the contract.
 */
export const quoteFailure = (operation: Operation): Operation =>
  operation.failure === null
    ? operation
    : {
      ...operation,
      failure: {
        ...operation.failure,
        message: joinUpTo(
          maxMessageLength,
          [...operation.failure.message].map((character) => character.replace(dangerous, escape))
        )
      }
    }

/** `\uXXXX` of each UTF-16 unit. */
const escapeUnits = (character: string): string =>
  character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")

/**
 * A value of JSON as text for a model. Strings cannot close a tag or a code fence around the text, and hide no character:
 * `JSON.parse` returns the same value.
 */
export const quotedJson = (value: unknown): string =>
  // Outside of strings, the text has only ASCII characters that are never escaped.
  JSON.stringify(value).replaceAll(dangerous, escapeUnits)
