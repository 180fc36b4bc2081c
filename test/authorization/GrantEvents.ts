/**
 * What an authorization server tells others of its grants.
 */
import { Effect } from "effect"

/** What became of a grant at the authorization server, as it tells others of it. */
export type GrantEvent =
  | {
    readonly type: "granted"
    readonly grant: string
    readonly client_id: string
    readonly subject: string
    readonly resource_owner: string
    readonly scopes: ReadonlyArray<string>
  }
  | { readonly type: "revoked"; readonly grant: string; readonly client_id: string }

export interface GrantEvents {
  readonly tell: (event: GrantEvent) => void
  /** Adds somebody to tell: the webhook of a team. The server does not wait for it. What this yields ends it. */
  readonly subscribe: (webhook: (event: GrantEvent) => Promise<void>) => () => void
  /** Waits until every event so far was told. */
  readonly delivered: Effect.Effect<void>
}

/** Passes events on to whoever subscribes, in the order in which they happen. */
export const makeGrantEvents = (): GrantEvents => {
  const webhooks = new Set<(event: GrantEvent) => Promise<void>>()
  let delivered = Promise.resolve()
  const tell: GrantEvents["tell"] = (event) => {
    for (const webhook of webhooks) delivered = delivered.then(() => webhook(event))
  }
  return {
    tell,
    subscribe: (webhook: (event: GrantEvent) => Promise<void>) => {
      webhooks.add(webhook)
      return () => webhooks.delete(webhook)
    },
    delivered: Effect.promise(() => delivered)
  }
}
