/**
 * Limits of JSON from outside. The check reads the text, before any parser or schema: their work on a value is many times as much.
 */
import { maxPayloadLevels } from "./Idempotency.ts"
import type { InvalidMember } from "./InvalidMember.ts"

/** Most of each in a text of JSON. */
export interface JsonLimits {
  /** Levels of arrays and objects. */
  readonly levels: number
  /** Members of an object. Each has a name of its own. */
  readonly members: number
  /** Items of an array. */
  readonly items: number
  /** Values in all, with arrays and objects. */
  readonly values: number
}

/** The limits of the body of a request. */
export const bodyLimits: JsonLimits = { levels: maxPayloadLevels, members: 256, items: 1024, values: 4096 }

/** An array or an object whose end is not read yet. */
interface Open {
  readonly isArray: boolean
  /** Items or members so far. */
  size: number
  /** The name of the current member. */
  name: string
  /** The names of an object so far. */
  readonly names: Set<string>
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const arrayStart = 0x5b
const backslash = 0x5c
const arrayEnd = 0x5d
const objectStart = 0x7b
const objectEnd = 0x7d

/** The index behind a string that begins at `start`; the length of the text if the string does not end. */
const endOfString = (text: string, start: number): number => {
  for (let index = start + 1; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) return index + 1
    if (code === backslash) index++
  }
  return text.length
}

/** The name that a quoted text stands for: `"a"` and `"\u0061"` are one. The parser refuses a name with a wrong escape. */
const nameIn = (quoted: string): string => {
  if (!quoted.includes("\\")) return quoted.slice(1, -1)
  try {
    return String(JSON.parse(quoted))
  } catch {
    return quoted
  }
}

/** Whether the array that begins at `start` has no items. */
const isEmptyArray = (text: string, start: number): boolean => {
  let index = start + 1
  // All white space of JSON, and control characters, which no JSON has.
  while (text.charCodeAt(index) <= 0x20) index++
  return text.charCodeAt(index) === arrayEnd
}

/**
 * The first member of a text of JSON that is beyond the limits; null if there is none. Its path has names and indices. The check stops
 * there, so no text is too large for it. Of a text that is no JSON it may find nothing: the parser refuses that.
 *
 * An object has each name once (RFC 7493 §2.3). Parsers disagree about a second member: one in front of the gateway could approve
 * another amount than the one that is sent.
 */
export const findExcess = (text: string, limits: JsonLimits): InvalidMember | null => {
  const open: Array<Open> = []
  const nameOf = ({ isArray, name, size }: Open): string => isArray ? String(size - 1) : name
  const excess = (around: ReadonlyArray<Open>, message: string): InvalidMember => ({
    path: around.map(nameOf),
    message
  })
  let values = 1
  let stringStart = 0
  let stringEnd = 0

  const count = (container: Open): InvalidMember | null => {
    container.size++
    if (container.size > (container.isArray ? limits.items : limits.members)) {
      const message = container.isArray ? `${limits.items} items` : `${limits.members} members`
      return excess(open.slice(0, -1), `Expected at most ${message}`)
    }
    return ++values > limits.values ? excess([], `Expected at most ${limits.values} values`) : null
  }

  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    let found: InvalidMember | null = null
    switch (code) {
      case quote:
        stringStart = index
        stringEnd = endOfString(text, index)
        index = stringEnd - 1
        break
      case colon: {
        const container = open.at(-1)
        if (container === undefined || container.isArray) break
        container.name = nameIn(text.slice(stringStart, stringEnd))
        if (container.names.has(container.name)) return excess(open, "Expected one member of this name")
        container.names.add(container.name)
        found = count(container)
        break
      }
      case comma: {
        const container = open.at(-1)
        if (container?.isArray === true) found = count(container)
        break
      }
      case arrayStart:
      case objectStart: {
        if (open.length === limits.levels) {
          return excess(open, `Expected at most ${limits.levels} levels of arrays and objects`)
        }
        const opened = { isArray: code === arrayStart, size: 0, name: "", names: new Set<string>() }
        open.push(opened)
        if (opened.isArray && !isEmptyArray(text, index)) found = count(opened)
        break
      }
      case arrayEnd:
      case objectEnd:
        open.pop()
        break
      default:
        break
    }
    if (found !== null) return found
  }
  return null
}
