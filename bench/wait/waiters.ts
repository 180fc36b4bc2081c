/**
 * The waiting clients: each has a connection, and asks for one operation with `Prefer: wait=60` and the entity tag that it
 * knows, again and again.
 */
import * as http from "node:http"
import { configuration, report } from "../shared/processes.ts"

export interface WaitersConfig {
  /** On 127.0.0.1. */
  readonly port: number
}

/** Who shall wait from now on. The waiters of a job are the first ones of any larger job. */
export interface WaitersJob {
  readonly waiters: ReadonlyArray<Waiter>
}

interface Waiter {
  readonly token: string
  readonly id: string
}

/** Sent once as many wait as the job says. */
export interface WaitersReady {
  readonly waiting: number
}

/** Sent for each answer with a new entity tag. */
export interface Notice {
  readonly id: string
  readonly tag: string
  /** Nanoseconds of the monotonic clock of the machine. */
  readonly at: string
}

/** Sent for an answer that is neither 200 nor 304, and for a wait that was not honoured. */
export interface Unexpected {
  readonly unexpected: string
}

const { port } = configuration<WaitersConfig>()
const agent = new http.Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })

interface Answer {
  readonly status: number
  readonly tag: string
  readonly applied: string | undefined
}

const ask = (
  { id, token }: Waiter,
  headers: Record<string, string>,
  signal: AbortSignal
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const options = {
      agent,
      port,
      host: "127.0.0.1",
      path: `/v1/operations/${id}`,
      headers: { authorization: `Bearer ${token}`, ...headers },
      signal
    }
    http.get(options, (response) => {
      response.resume().on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          tag: response.headers.etag ?? "",
          applied: response.headers["preference-applied"] as string | undefined
        })).on("error", reject)
    }).on("error", reject)
  })

/** Waits until it is stopped. Calls `onStart` once it knows the tag, and is about to wait. */
const wait = async (waiter: Waiter, signal: AbortSignal, onStart: () => void) => {
  let { tag } = await ask(waiter, {}, signal)
  onStart()
  while (!signal.aborted) {
    const answer = await ask(waiter, { prefer: "wait=60", "if-none-match": tag }, signal)
    const at = String(process.hrtime.bigint())
    if ((answer.status !== 200 && answer.status !== 304) || answer.applied === undefined) {
      report({ unexpected: `${answer.status}, Preference-Applied: ${answer.applied}` } satisfies Unexpected)
    }
    if (answer.tag !== tag) report({ id: waiter.id, tag: answer.tag, at } satisfies Notice)
    tag = answer.tag
  }
}

const running: Array<AbortController> = []

const resize = async ({ waiters }: WaitersJob) => {
  while (running.length > waiters.length) running.pop()!.abort()
  while (running.length < waiters.length) {
    const waiter = waiters[running.length]!
    const controller = new AbortController()
    running.push(controller)
    // One after the other: the gateway refuses thousands of first reads at once.
    await new Promise<void>((resolve) => {
      wait(waiter, controller.signal, resolve).catch((error: unknown) => {
        if (!controller.signal.aborted) report({ unexpected: String(error) } satisfies Unexpected)
        resolve()
      })
    })
  }
  report({ waiting: running.length } satisfies WaitersReady)
}

process.on("message", (job) => void resize(job as WaitersJob))
report({ waiting: 0 } satisfies WaitersReady)
