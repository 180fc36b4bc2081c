/** The preferences of a request (RFC 7240). */

/** Most seconds that a response waits. Further seconds are not honoured. */
export const maxWait = 60

/** The preferences of the header, each as text. A comma in a quoted string separates nothing. */
const preferences = /(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+/gs

/** Name and value of a preference, whose parameters are left out: `wait` has none. */
const preference =
  /^[\t ]*([!#$%&'*+.^_`|~0-9a-z-]+)[\t ]*(?:=[\t ]*([!#$%&'*+.^_`|~0-9a-z-]+|"(?:[^"\\]|\\.)*")[\t ]*)?$/i

/** The value of a word: a quoted string stands for its content. */
const contentOf = (word: string): string => word.startsWith("\"") ? word.slice(1, -1).replaceAll(/\\(.)/g, "$1") : word

/** The text before the parameters, which begin with the first semicolon outside of a quoted string. */
const withoutParameters = (text: string): string => /^(?:[^";]|"(?:[^"\\]|\\.)*")*/.exec(text)![0]

/**
 * The seconds that the response may wait, from 1 to `maxWait`. Null if the client asks for no wait. The first `wait` counts, and
 * is ignored unless it is a whole number of seconds above 0 (RFC 7240 §2, §4.3). Several headers arrive joined by commas.
 */
export const readWait = (prefer: string | undefined): number | null => {
  for (const text of prefer?.match(preferences) ?? []) {
    const [, name, word] = preference.exec(withoutParameters(text)) ?? []
    if (name?.toLowerCase() !== "wait") continue
    const value = contentOf(word ?? "")
    const seconds = /^[0-9]+$/.test(value) ? Math.min(Number(value), maxWait) : 0
    return seconds > 0 ? seconds : null
  }
  return null
}
