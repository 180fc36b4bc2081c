/**
 * Clients by the ids of their authorization servers, and how these become client ids of the gateway.
 */
import * as Schema from "effect/Schema"
import { ClientId, Issuer } from "./Grant.ts"

/**
 * A client id as the authorization server uses it: in its tokens and in its events. Grants and operations name the client by its
 * `ClientId`, so no call of the gateway takes this one. `gatewayClientId` converts it.
 */
export const IssuerClientId = Schema.String.pipe(Schema.brand("IssuerClientId"))
export type IssuerClientId = typeof IssuerClientId.Type

const isClientId = Schema.is(ClientId)

/** Whether client ids can begin with this text: nothing, or a text that could be a client id itself. @internal */
export const isClientPrefix = (prefix: string): boolean => prefix === "" || isClientId(prefix)

/**
 * The client id of the gateway for a client of an authorization server. It is the client prefix of that issuer (empty where it
 * has none), and the id that the server uses. Null if the result is no client id, because it is empty, longer than 255 characters or
 * holds other than visible ASCII characters.
 */
export const gatewayClientId = (prefix: string, client: IssuerClientId): ClientId | null => {
  const id: string = prefix + client
  return isClientId(id) ? id : null
}

/**
 * A revocation by client matched nothing that the ledger knows: it has grants of the issuer, but none of this client; or, where no
 * issuer was named, no such client at all. The revocation is recorded all the same, and holds for grants of this client id
 * that are registered later. The usual cause is an id of the authorization server without the client prefix.
 */
export class UnmatchedRevocation extends Schema.TaggedError<UnmatchedRevocation>()("UnmatchedRevocation", {
  client_id: ClientId,
  issuer: Schema.NullOr(Issuer)
}) {
  override get message() {
    const known = this.issuer === null
      ? `there is no client ${this.client_id}`
      : `no grant of ${this.issuer} is of the client ${this.client_id}`
    return `the revocation matched no grant: ${known}. If the authorization server has a client_prefix, repeat the call with `
      + "the prefix in front of the client id. Otherwise do not repeat it: the revocation is recorded, unless a transaction of "
      + "yours rolls it back, and holds for grants of this client id that are registered later"
  }
}
