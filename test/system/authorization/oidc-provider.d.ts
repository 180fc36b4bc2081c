/** The types of `oidc-provider` that the tests use. The package has none. */
declare module "oidc-provider" {
  import type { IncomingMessage, RequestListener, ServerResponse } from "node:http"

  export interface Client {
    readonly clientId: string
    grantTypeAllowed(type: string): boolean
  }

  export interface Context {
    readonly path: string
    readonly oidc: { readonly client?: Client }
    body: unknown
    get(header: string): string
  }

  export interface Token {
    readonly kind: string
    readonly clientId: string
    readonly grantId?: string
    readonly accountId?: string
  }

  export interface Grant {
    addOIDCScope(scope: string): void
    addResourceScope(resource: string, scope: string): void
    save(): Promise<string>
  }

  export interface Interaction {
    readonly params: Readonly<Record<string, string>>
  }

  export interface BackchannelRequest {
    readonly accountId: string
    readonly clientId: string
    readonly jti: string
    readonly params: Readonly<Record<string, string>>
  }

  export const errors: { readonly AccessDenied: new() => Error }

  export class Provider {
    constructor(issuer: string, configuration: object)
    backchannelResult(
      request: BackchannelRequest,
      result: Grant | Error,
      options?: { readonly acr?: string }
    ): Promise<void>
    readonly Grant: new(options: { readonly accountId: string; readonly clientId: string }) => Grant
    callback(): RequestListener
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): this
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
    on(event: "grant.revoked", listener: (context: Context, grantId: string) => void): this
    on(event: "server_error", listener: (context: Context, error: Error) => void): this
  }
}
