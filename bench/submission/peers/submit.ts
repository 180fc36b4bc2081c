/** What the processes of the peers share: their configuration, and the request to the provider. */
import { Agent, request } from "@effect/platform-node/Undici"
import { configuration, report } from "../../shared/processes.ts"
import { concurrency, now, type WorkerConfig } from "../config.ts"

export const { database, listens, sandboxUrl, timed } = configuration<WorkerConfig>()

export interface Job {
  readonly id: string
  readonly payload: unknown
}

const begun: Array<readonly [string, number]> = []
process.on("message", () => report({ begun }))
process.once("SIGTERM", () => process.exit())

// The same undici client as in the gateway's worker.
const dispatcher = new Agent({ connections: concurrency, pipelining: 1, keepAliveTimeout: 2000 })

/** Submits a job once, and yields the state of its row. */
export const submit = async ({ id, payload }: Job): Promise<"succeeded" | "failed"> => {
  if (timed) begun.push([id, now()])
  const { body, statusCode } = await request(`${sandboxUrl}/mutations`, {
    method: "POST",
    headers: { "content-type": "application/json", "accept": "application/json", "idempotency-key": id },
    body: JSON.stringify({ type: "payment", payload }),
    dispatcher
  })
  const answer = await body.json() as { readonly status?: string }
  return statusCode === 200 && answer.status === "succeeded" ? "succeeded" : "failed"
}
