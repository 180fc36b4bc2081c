/** A fake bank for `ListBank.ts`: a dialect of the sandbox that lists transfers, two in a page. */
import { Result } from "effect"
import type { Answer, Dialect, KnownSubmission } from "financial-agents-gateway/sandbox/Sandbox"

const json = (status: number, body: object): Answer => ({
  status,
  contentType: "application/json",
  text: JSON.stringify(body)
})

const transferOf = ({ echo, status }: KnownSubmission) => ({
  id: status.reference,
  idempotency_key: status.idempotency_key,
  amount: echo
})

/** Give it to `Sandbox.layer`. */
export const dialect: Dialect = {
  demandOf: ({ headers, method, path, query }) => {
    if (path !== "/transfers") return null
    if (method === "POST") return { _tag: "Submit", key: String(headers["idempotency-key"]) }
    return {
      _tag: "List",
      limit: 2,
      after: query.get("after"),
      answer: (page, hasMore) =>
        json(200, { transfers: page.map(transferOf), next: hasMore ? page.at(-1)!.status.reference : null })
    }
  },
  submissionOf: (_head, body) => {
    const { amount } = JSON.parse(body) as { readonly amount: string }
    return Result.succeed({
      type: "payment",
      instruction: { outcome: "succeeded" },
      sendBefore: Infinity,
      echo: amount
    })
  },
  write: (saying) => saying._tag === "Taken" ? json(201, transferOf(saying.known)) : json(400, { code: saying._tag })
}
