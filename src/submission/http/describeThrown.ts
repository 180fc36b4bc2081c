/**
 * Describes an error of an adapter's own code without its message, which may quote the payload or a credential.
 */
import { readMember } from "../../http/RequestFailure.ts"

/** The first of these members that is a name. */
const firstName = (error: unknown, members: ReadonlyArray<string>): string | null => {
  for (const member of members) {
    const name = readMember(error, member)
    if (typeof name === "string" && /^[A-Za-z_$][\w$./-]{0,127}$/.test(name)) return name
  }
  return null
}

/** The name of an error, or the tag of a tagged one. Null if the value has neither. */
export const errorName = (error: unknown): string | null => firstName(error, ["_tag", "name"])

/** The code, the tag or the name of an error's `cause`, such as `ECONNREFUSED`. Null if it has none. */
export const causeName = (error: unknown): string | null =>
  firstName(readMember(error, "cause"), ["code", "_tag", "name"])

/** The folder of this library, in the form of `URL.pathname`. Null if a bundler moved this file. */
const libraryFolder = (() => {
  const folder = "submission/http/"
  const own = new URL(".", import.meta.url).pathname
  return own.endsWith(`/${folder}`) ? own.slice(0, -folder.length) : null
})()

/** Frames of this library, of Effect and of Node say nothing about the adapter. */
const isForeign = (frame: string): boolean =>
  !(libraryFolder !== null && frame.includes(libraryFolder))
  && !["/node_modules/effect/", "/node_modules/@effect/", "(node:"].some((part) => frame.includes(part))

/**
 * The position of the first stack frame outside of this library, such as `FirstBank.js:41:23`. Null if there is none. It
 * skips the lines of the message, because they may look like frames.
 */
const positionOf = (error: Error): string | null => {
  const { message, stack } = { message: readMember(error, "message"), stack: readMember(error, "stack") }
  if (typeof stack !== "string" || typeof message !== "string") return null
  const frames = stack.split("\n", 200).slice(message.split("\n").length)
  const frame = frames.find((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line) && isForeign(line))
  const position = frame === undefined ? null : /[/\\( ]([\w.$@+-]{1,128}:\d+:\d+)\)?$/.exec(frame)
  return position?.[1] ?? null
}

/** Describes a thrown value by its name and position, such as `TypeError at FirstBank.js:41:23`. */
export const describeThrown = (thrown: unknown): string => {
  const name = errorName(thrown) ?? (thrown instanceof Error ? "Error" : typeof thrown)
  const position = thrown instanceof Error ? positionOf(thrown) : null
  return position === null ? name : `${name} at ${position}`
}
