/** Text of providers, quoted so that a language model cannot take it for an instruction of the gateway. */
import type { Operation } from "../domain/Operation.ts"
import { maxMessageLength } from "../domain/Operation.ts"
import { escapeCharacter, escapeInJson, replaceHidden } from "../domain/VisibleText.ts"

/** Marks that close a tag or a code fence in the prompt of a host. */
const marks = /[<>&`]/gu

/** Escapes hidden characters, and marks of a prompt. */
const replaceDangerous = (text: string, escape: (character: string) => string): string =>
  replaceHidden(text, escape).replaceAll(marks, escape)

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
          [...operation.failure.message].map((character) => replaceDangerous(character, escapeCharacter))
        )
      }
    }

/**
 * A value of JSON as text for a model. Strings cannot close a tag or a code fence around the text, and hide no character:
 * `JSON.parse` returns the same value.
 */
export const quotedJson = (value: unknown): string =>
  // Outside of strings, the text has only ASCII characters that are never escaped.
  replaceDangerous(JSON.stringify(value), escapeInJson)
