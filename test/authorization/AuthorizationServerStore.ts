/**
 * What an authorization server of the tests keeps. It outlives the `oidc-provider` in front of it, as a database would.
 */

interface Payload {
  readonly uid?: string
  readonly userCode?: string
  readonly grantId?: string
  consumed?: number
}

/** An adapter class of `oidc-provider`, whose instances share one memory. Nothing is ever evicted; tests are short. */
export const makeAuthorizationServerStore = () => {
  const entries = new Map<string, Payload>()

  const findBy = (model: string, matches: (payload: Payload) => boolean) =>
    [...entries].find(([key, payload]) => key.startsWith(`${model}:`) && matches(payload))?.[1]

  return class {
    readonly model: string

    constructor(model: string) {
      this.model = model
    }

    key(id: string) {
      return `${this.model}:${id}`
    }

    async upsert(id: string, payload: Payload) {
      entries.set(this.key(id), payload)
    }

    async find(id: string) {
      return entries.get(this.key(id))
    }

    async findByUid(uid: string) {
      return findBy(this.model, (payload) => payload.uid === uid)
    }

    async findByUserCode(userCode: string) {
      return findBy(this.model, (payload) => payload.userCode === userCode)
    }

    async consume(id: string) {
      entries.get(this.key(id))!.consumed = Math.floor(Date.now() / 1000)
    }

    async destroy(id: string) {
      entries.delete(this.key(id))
    }

    async revokeByGrantId(grantId: string) {
      for (const [key, payload] of entries) {
        if (key.startsWith(`${this.model}:`) && payload.grantId === grantId) entries.delete(key)
      }
    }
  }
}
