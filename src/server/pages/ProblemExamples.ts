/**
 * An example of each problem: the path of the request, and a curl line that causes the problem where that harms nothing.
 */
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"
import { makeProblem } from "../../api/Problems.ts"
import type { RequestId } from "../../domain/RequestId.ts"
import { problemJson } from "../gate/ProblemResponses.ts"

const readPath = "/v1/operations"

interface Request {
  readonly path: string
  /** The arguments of curl. `URL` stands for the base URL, and `$TOKEN` for an access token. */
  readonly curl?: string
}

/** More bytes than the gateway reads, as a shell makes them. */
const many = (bytes: number) => `$(head -c ${bytes} /dev/zero | tr '\\0' x)`

const authorized = "-H \"Authorization: Bearer $TOKEN\""

const operationPath = `${readPath}/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f`

const requests: Readonly<Partial<Record<ProblemCode, Request>>> = {
  malformed_request: { path: "/healthz", curl: "'URL/healthz?access_token=example'" },
  missing_credentials: { path: readPath, curl: `URL${readPath}` },
  invalid_token: { path: readPath, curl: `-H 'Authorization: Bearer example' URL${readPath}` },
  operation_not_found: { path: operationPath, curl: `${authorized} URL${operationPath}` },
  change_token_expired: { path: `${readPath}/changes` },
  route_not_found: { path: "/nowhere", curl: "URL/nowhere" },
  method_not_allowed: { path: "/healthz", curl: "-X DELETE URL/healthz" },
  not_acceptable: { path: "/problems", curl: "-H 'Accept: image/png' URL/problems" },
  payload_too_large: { path: "/healthz", curl: `-X GET -d "${many(70_000)}" URL/healthz` },
  uri_too_long: { path: "/healthz", curl: `"URL/healthz?x=${many(9000)}"` },
  // The gateway refuses it before it has read the path.
  headers_too_large: { path: "/healthz", curl: `-H "X-Long: ${many(20_000)}" URL/healthz` },
  invalid_request: { path: "/healthz", curl: "'URL/healthz?x=1'" },
  invalid_page_token: { path: readPath, curl: `${authorized} 'URL${readPath}?page_token=example'` },
  not_ready: { path: "/readyz" },
  idempotency_key_required: { path: "/v1/payments" },
  unsupported_media_type: { path: "/v1/payments" },
  idempotency_key_reused: { path: "/v1/payments" }
}

/** The request id in the examples. */
const id = "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10" as RequestId

/** The example of one problem. */
interface ProblemExample {
  /** The body of the response: indented JSON. */
  readonly body: string
  /** The command that causes the problem; null if only a grant, a fault or a load causes it. */
  readonly command: string | null
}

/** Makes the example of a problem, for a gateway at this base URL. */
export const problemExample = (baseUrl: string, code: ProblemCode): ProblemExample => {
  const { curl, path } = requests[code] ?? { path: readPath }
  const { fields }: ProblemKind = problemKinds[code]
  const problem = makeProblem(baseUrl, { id, path }, code, { fields })
  return {
    body: JSON.stringify(JSON.parse(problemJson(problem)), null, 2),
    command: curl === undefined ? null : `curl ${curl.replace("URL", () => baseUrl)}`
  }
}
