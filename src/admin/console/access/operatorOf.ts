/**
 * The operator whom the claims of an ID token describe.
 */

export type Claims = Readonly<Record<string, unknown>>

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

/**
 * The name for the records of actions: `preferred_username`, or else `email` if it is verified, or else `sub`. Control characters become
 * spaces.
 */
export const operatorOf = (claims: Claims): string => {
  const { email, email_verified, preferred_username, sub } = claims
  const names = [preferred_username, email_verified === true ? email : undefined, sub]
  const name = names.find((name): name is string => typeof name === "string" && name.trim() !== "") ?? "unknown"
  return name.replaceAll(/\p{C}/gu, " ").trim().slice(0, maxName)
}
