import { Context, Effect, Layer } from "effect"
import * as fs from "node:fs"
import { type Agent, request } from "node:http"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { Sandbox, type SandboxOptions } from "../../src/sandbox/Sandbox.ts"

/** A sandbox that listens until the test's scope closes. Time is the test's. */
export const start = (options: SandboxOptions = {}) =>
  Layer.build(Layer.fresh(Sandbox.layer(options))).pipe(Effect.map((context) => Context.get(context, Sandbox)))

/** A directory that is removed afterwards. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "sandbox-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

/** Waits until the condition holds, for as long as the test may run. On real time, whatever the clock of the test says. */
export const until = (condition: () => boolean | Promise<boolean>): Effect.Effect<void> =>
  Effect.promise(async (signal) => {
    while (!(await condition()) && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 2))
  })

/** What came of a request: a response, or the code of the error that came in its place. */
export interface Outcome {
  readonly status: number
  readonly type: string | undefined
  readonly text: string
  readonly error: string | undefined
  /** The body, when it is JSON. */
  readonly json: unknown
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export interface Call {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly agent?: Agent
}

/** One request, on a connection of its own unless there is an agent. Never retried. */
export const call = (url: string, { agent, body, headers, method = "GET" }: Call = {}): Effect.Effect<Outcome> =>
  Effect.callback((resume) => {
    let [status, type, text]: [number, string | undefined, string] = [0, undefined, ""]
    const done = (error?: NodeJS.ErrnoException) =>
      resume(Effect.succeed({ status, type, text, error: error?.code, json: parse(text) }))
    const sent = request(url, { method, agent: agent ?? false, headers: headers ?? {} }, (response) => {
      status = response.statusCode ?? 0
      type = response.headers["content-type"]
      response.setEncoding("utf8").on("data", (chunk: string) => text += chunk)
      response.once("end", () => done()).once("error", done)
    })
    sent.once("error", done)
    sent.end(body)
    return Effect.sync(() => void sent.destroy())
  })

/** Hands in a submission. */
export const submit = (
  url: string,
  key: string,
  payload: unknown = {},
  { agent, ...headers }: { readonly agent?: Agent; readonly "send-before"?: string } = {}
): Effect.Effect<Outcome> =>
  call(`${url}/mutations`, {
    method: "POST",
    headers: { "idempotency-key": key, "content-type": "application/json", ...headers },
    body: JSON.stringify({ type: "payment", payload }),
    ...agent && { agent }
  })

/** Reads the status of a submission. */
export const read = (url: string, key: string): Effect.Effect<Outcome> =>
  call(`${url}/mutations/${encodeURIComponent(key)}`)

/** Sends bytes as they are. Resolves with all that came back, and how it ended: `end`, or the code of an error. */
export const dial = (url: string, bytes: string): Effect.Effect<{ readonly text: string; readonly end: string }> =>
  Effect.callback((resume) => {
    const { hostname, port } = new URL(url)
    const socket = net.connect({ host: hostname, port: Number(port) })
    let text = ""
    const done = (end: string) => resume(Effect.succeed({ text, end }))
    socket.setEncoding("latin1").on("data", (chunk) => text += String(chunk))
    socket.once("end", () => done("end"))
    socket.once("error", (error: NodeJS.ErrnoException) => done(error.code ?? "unknown"))
    socket.once("close", () => done("close"))
    socket.write(bytes)
    return Effect.sync(() => void socket.destroy())
  })

/** A submission as bytes. */
export const submissionBytes = (key: string, payload: unknown = {}): string => {
  const body = JSON.stringify({ type: "payment", payload })
  return `POST /mutations HTTP/1.1\r\nHost: sandbox\r\nIdempotency-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** A payload that tells the sandbox what to do. */
export const told = (sandbox: Readonly<Record<string, unknown>>) => ({ sandbox })
