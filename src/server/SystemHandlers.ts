/** Handlers of the system endpoints: health, readiness, problem descriptions and resource metadata. */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import { Api } from "../api/Api.ts"
import { type ProblemCode, problemKinds } from "../api/ProblemKinds.ts"
import type { ProblemDescription, ProtectedResourceMetadata } from "../api/SystemApi.ts"
import * as CompiledGroup from "../dispatch/CompiledGroup.ts"
import { operationsRead } from "../domain/Grant.ts"
import { mcpResource } from "../domain/McpResource.ts"
import { Readiness } from "../services/Readiness.ts"
import { AcceptedCredentials, type AcceptedCredentialsShape } from "../services/verification/OAuthVerifier.ts"
import { BaseUrl } from "./gate/BaseUrl.ts"
import { Lifecycle } from "./gate/Lifecycle.ts"
import { Problems } from "./gate/ProblemResponses.ts"
import { preferredForm } from "./gate/RequestChecks.ts"
import { gatewayName as name, makeRespondWithPage } from "./pages/Page.ts"
import { problemPage, problemsPage } from "./pages/ProblemPages.ts"

const ok = { status: "ok" } as const

const resourceMetadata = (
  { baseUrl, name, resource }: { readonly resource: string; readonly name: string; readonly baseUrl: string },
  accepted: AcceptedCredentialsShape
): ProtectedResourceMetadata => ({
  resource,
  ...accepted.authorizationServers.length === 0 ? {} : { authorization_servers: accepted.authorizationServers },
  scopes_supported: [operationsRead],
  bearer_methods_supported: ["header"],
  resource_name: name,
  resource_documentation: `${baseUrl}/docs`,
  ...accepted.dpopAlgorithms === null ? {} : {
    dpop_signing_alg_values_supported: accepted.dpopAlgorithms,
    dpop_bound_access_tokens_required: accepted.senderConstrained === "required" && accepted.certificates === null
  },
  ...accepted.certificates === null ? {} : { tls_client_certificate_bound_access_tokens: true }
})

const isForBrowser = ({ headers }: HttpServerRequest): boolean => preferredForm(headers) === "page"

/** Handlers of `SystemApi`. */
export const SystemLayer = CompiledGroup.group(
  Api,
  "system",
  Effect.fn(function*(handlers) {
    const baseUrl = yield* BaseUrl
    const lifecycle = yield* Lifecycle
    const readiness = yield* Readiness
    const accepted = yield* AcceptedCredentials
    const metadata = resourceMetadata({ resource: baseUrl, name, baseUrl }, accepted)
    const mcpMetadata = resourceMetadata(
      { resource: mcpResource(baseUrl), name: `${name}: MCP endpoint`, baseUrl },
      accepted
    )
    const problems = yield* Problems
    const unknownCode = problems.fail("route_not_found", { detail: "There is no such error code." })
    const respondWithPage = yield* makeRespondWithPage

    const problemDescription = (code: ProblemCode) => {
      const { action, meaning, retryable, status, title } = problemKinds[code]
      return {
        type: `${baseUrl}/problems/${code}`,
        code,
        title,
        status,
        retryable,
        meaning,
        action
      } satisfies ProblemDescription
    }
    const catalogue = new Map((Object.keys(problemKinds) as Array<ProblemCode>).map((code) => [
      code as string,
      problemDescription(code)
    ]))

    return handlers.handleAll({
      health: () => Effect.succeed(ok),
      ready: () =>
        lifecycle.isDraining()
          ? problems.fail("not_ready", {
            detail: "The gateway is shutting down.",
            cause: "the gateway is shutting down"
          })
          : Effect.catch(
            Effect.as(readiness.check, ok),
            ({ reason }) => problems.fail("not_ready", { cause: reason })
          ),
      resourceMetadata: () => Effect.succeed(metadata),
      mcpResourceMetadata: () => Effect.succeed(mcpMetadata),
      listProblems: ({ request }) =>
        Effect.succeed(isForBrowser(request) ? respondWithPage(problemsPage) : { problems: [...catalogue.values()] }),
      getProblem: ({ params, request }) => {
        const found = catalogue.get(params.code)
        if (found === undefined) return unknownCode
        return Effect.succeed(isForBrowser(request) ? respondWithPage(problemPage(baseUrl, found.code)) : found)
      }
    })
  })
)
