import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import { areScopesBounded, type Grant } from "../../domain/Grant.ts"
import type { GrantRegistration } from "../Grants.ts"

/**
 * By how much a token must move the end of a grant for that to be written. Each use of a token says another end: without
 * this, each would write.
 */
export const leastExtension = Duration.hours(1)

/** Of a grant, what registrations may change. */
type Learned = Pick<Grant, "scopes" | "expires_at" | "registered_by_event_at">

/** A known grant as it is after a registration: the very same one when that says nothing new. */
export const mergeRegistration = <G extends Learned>(known: G, registration: GrantRegistration, now: DateTime.Utc): G =>
  registration.learned_from === "token" ? learnFromToken(known, registration) : learnFromEvent(known, registration, now)

/** What an event said holds for ever: a token may be older than it, whenever it comes. */
const learnFromToken = <G extends Learned>(known: G, { expires_at, scopes }: GrantRegistration): G => {
  const added = scopes.filter((scope) => !known.scopes.includes(scope))
  const isLater = DateTime.isGreaterThan(expires_at, DateTime.addDuration(known.expires_at, leastExtension))
  return known.registered_by_event_at !== undefined || (added.length === 0 && !isLater)
    ? known
    : { ...known, scopes: [...known.scopes, ...added], expires_at: DateTime.max(known.expires_at, expires_at) }
}

const learnFromEvent = <G extends Learned>(
  known: G,
  { expires_at, scopes }: GrantRegistration,
  now: DateTime.Utc
): G => {
  const isKnown = known.registered_by_event_at !== undefined && DateTime.Equivalence(known.expires_at, expires_at)
    && known.scopes.join(" ") === scopes.join(" ")
  return isKnown
    ? known
    : { ...known, scopes, expires_at, registered_by_event_at: known.registered_by_event_at ?? now }
}

/** Whether the grant would have no more scopes than it may after a registration. Not known yet: undefined. */
export const fitsScopes = (known: Learned | undefined, registration: GrantRegistration, now: DateTime.Utc): boolean =>
  areScopesBounded((known === undefined ? registration : mergeRegistration(known, registration, now)).scopes)

/** Whether a registration is of the grant as it is known: whose it is never changes. */
export const isSameGrant = (known: Grant, { provider, resource_owner, subject }: GrantRegistration): boolean =>
  known.resource_owner === resource_owner && known.subject === subject && known.provider === provider
