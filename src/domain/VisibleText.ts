/** Text from outside, such as a reference of a provider, with its hidden characters made visible. */

/**
 * Characters that a person does not see, or that change the layout. `\p{C}` are control and format characters, unassigned and
 * private ones, and lone surrogates. `\p{Z}` are spaces and separators; U+0020 stays. The next property adds variation selectors,
 * fillers and tags. U+2800 is a blank of Braille.
 */
const hidden = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu

/** The text with another text in place of each hidden character. */
export const replaceHidden = (text: string, escape: (character: string) => string): string =>
  text.replaceAll(hidden, escape)

/** Whether a person sees each character of the text. */
export const isVisible = (text: string): boolean => text.search(hidden) === -1

/** A character as an escape, such as `\u{202e}`. */
export const escapeCharacter = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`

/** A character as escapes of JSON: `\\uXXXX` of each UTF-16 unit. */
export const escapeInJson = (character: string): string =>
  character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")

/** The text with escapes in place of its hidden characters. It is one line, and cannot drive a terminal. */
export const visible = (text: string): string => replaceHidden(text, escapeCharacter)
