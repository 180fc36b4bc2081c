/**
 * The operator whom the claims of an ID token describe.
 */
import { replaceHidden } from "../../../domain/VisibleText.ts"

type Claims = Readonly<Record<string, unknown>>

/** A claim by its name, or by the names on the way to it with dots between them. A name may itself have dots. */
const claimOf = (claims: Claims, name: string): unknown => {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const part of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Claims)[part]
  }
  return value
}

/** Whether the claim has the role: it is the role, or a list with it. */
export const hasRole = (claims: Claims, claim: string, role: string): boolean => {
  const value = claimOf(claims, claim)
  return value === role || (Array.isArray(value) && value.includes(role))
}

/** Most characters of a name in the records of actions. */
const maxName = 255

/** The name without characters that a person does not see. Empty: it has no others. */
const nameOf = (claim: unknown): string =>
  typeof claim === "string" ? replaceHidden(claim, () => " ").trim().slice(0, maxName).toWellFormed() : ""

/**
 * The name for the records of actions: `preferred_username`, or else `email` if it is verified, or else `sub`. Hidden characters, such as
 * control characters, become spaces. A claim with nothing else counts as missing: no record holds an empty name.
 */
export const operatorOf = (claims: Claims): string => {
  const { email, email_verified, preferred_username, sub } = claims
  const names = [preferred_username, email_verified === true ? email : undefined, sub].map(nameOf)
  return names.find((name) => name !== "") ?? "unknown"
}
