/** Checks that all servers of a scenario give the same answers: otherwise the comparison would be meaningless. */
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import type { Server } from "./contestants.ts"
import type { LoadRequest } from "./load.ts"

interface Contestant {
  readonly target: { readonly name: string; readonly token: string; readonly requests: ReadonlyArray<LoadRequest> }
  readonly server: Server
}

/** Headers of a connection or of a moment. */
const otherHeaders = new Set(["connection", "date", "keep-alive", "transfer-encoding"])

const isProblem = (status: number) => status >= 400

const fetchAnswer = async (port: number, path: string, headers: Record<string, string>) => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { "x-request-id": "same-answers", accept: "application/json", ...headers }
  })
  const text = await response.text()
  const body = text === "" ? null : JSON.parse(text) as Record<string, unknown>
  const sent = [...response.headers].filter(([name]) => !otherHeaders.has(name) && name !== "content-length")
  return { status: response.status, headers: Object.fromEntries(sent), body, text }
}

type Answer = Awaited<ReturnType<typeof fetchAnswer>>

/** What must be equal. Of a problem, that is the status and the code: the peers write less about it. */
const comparable = ({ body, headers, status, text }: Answer) => {
  const mediaType = headers["content-type"]?.split(";")[0]
  if (isProblem(status)) return { status, mediaType, code: body?.["code"] }
  const { next_page_token: token, ...rest } = body ?? {}
  // Page tokens are opaque, and different for each server. The rest must have the same bytes.
  return {
    status,
    headers: { ...headers, "content-type": mediaType },
    body: token === undefined ? text : rest,
    hasNextPage: typeof token === "string"
  }
}

/** The answers of a server to the request of the scenario, and to some that differ from it in one thing. */
const askAll = async ({ server: { port }, target: { requests, token } }: Contestant) => {
  const { path } = requests[0]!
  const authorization = `Bearer ${token}`
  const first = await fetchAnswer(port, path, { authorization })
  const next = first.body?.["next_page_token"]
  const etag = first.headers["etag"]
  const isOpen = path === "/healthz"
  const others = [
    ...typeof next === "string" ? [fetchAnswer(port, `${path}?page_token=${next}`, { authorization })] : [],
    ...etag === undefined ? [] : [fetchAnswer(port, path, { authorization, "if-none-match": etag })],
    ...isOpen ? [] : [
      fetchAnswer(port, path, {}),
      fetchAnswer(port, path, { authorization: `Bearer fingw_${"0".repeat(49)}` }),
      fetchAnswer(port, "/v1/operations/019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f", { authorization })
    ]
  ]
  return [first, ...await Promise.all(others)].map(comparable)
}

/** Dies unless all servers give the same answers. */
export const assertSameAnswers = Effect.fnUntraced(function*(contestants: ReadonlyArray<Contestant>) {
  const answers = yield* Effect.promise(() => Promise.all(contestants.map(askAll)))
  const different = answers.findIndex((answer) => !isDeepStrictEqual(answer, answers[0]))
  if (different === -1) return
  const [a, b] = [contestants[0]!.target.name, contestants[different]!.target.name]
  const index = answers[0]!.findIndex((answer, index) => !isDeepStrictEqual(answer, answers[different]![index]))
  return yield* Effect.die(
    new Error(
      `${a} and ${b} answer differently:\n${JSON.stringify(answers[0]![index])}\n`
        + `${JSON.stringify(answers[different]![index])}`
    )
  )
})
