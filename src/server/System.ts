/**
 * The system endpoints.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import { allProblemKinds, type AnyProblemCode } from "../api/MutationProblems.ts"
import type { ProblemDescription } from "../api/System.ts"
import { Readiness } from "../services/Readiness.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { BaseUrl, Problems } from "./Problems.ts"

const ok = { status: "ok" } as const

/** Handlers of `SystemApi`. */
export const SystemLayer = HttpApiBuilder.group(
  Api,
  "system",
  Effect.fn(function*(handlers) {
    const baseUrl = yield* BaseUrl
    const lifecycle = yield* Lifecycle
    const readiness = yield* Readiness
    const problems = yield* Problems

    const describe = (code: AnyProblemCode): ProblemDescription => {
      const { action, meaning, retryable, status, title } = allProblemKinds[code]
      return { type: `${baseUrl}/problems/${code}`, code, title, status, retryable, meaning, action }
    }
    const catalogue = new Map((Object.keys(allProblemKinds) as Array<AnyProblemCode>).map((code) => [
      code as string,
      describe(code)
    ]))

    return handlers.handleAll({
      health: () => Effect.succeed(ok),
      ready: () =>
        lifecycle.isDraining()
          ? problems.fail("not_ready", { detail: "The gateway is shutting down." })
          : Effect.catch(Effect.as(readiness.check, ok), ({ reason }) =>
            Effect.andThen(
              Effect.annotateLogs(Effect.logWarning("The gateway is not ready"), { reason }),
              problems.fail("not_ready")
            )),
      listProblems: () => Effect.succeed({ problems: [...catalogue.values()] }),
      getProblem: ({ params }) => {
        const found = catalogue.get(params.code)
        return found === undefined
          ? problems.fail("route_not_found", { detail: "There is no such error code." })
          : Effect.succeed(found)
      }
    })
  })
)
