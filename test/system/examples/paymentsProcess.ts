/**
 * The payments example as its users run it: a process, reached over HTTP.
 */
import { Effect } from "effect"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { inject } from "vitest"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { programIn } from "../../fixtures/processes/CommandBundle.ts"
import { environment as basis, freePort } from "../../fixtures/processes/CommandLine.ts"

export interface PaymentsProcess {
  readonly url: string
  /** The token that the example printed. */
  readonly token: string
  /** Of the process that was started: with `byNpm`, npm's own. */
  readonly pid: number
  /** What it has printed. */
  readonly printed: () => string
  /** Waits until the output matches. */
  readonly prints: (pattern: RegExp) => Effect.Effect<void>
  readonly stop: (signal: NodeJS.Signals) => Effect.Effect<NodeJS.Signals | number | null>
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

type Command = readonly [file: string, ...args: ReadonlyArray<string>]

/** The program without npm, on the Node that runs the tests. */
export const direct = (entry: string): Command => [process.execPath, programIn(inject("programs"), entry)]

/** The program as its documentation says. */
export const byNpm: Command = ["npm", "run", "example:payments"]

/** Starts the example and waits until it prints how to pay. The scope ends it if it still runs. */
export const startPayments = Effect.fnUntraced(function*(
  environment: Readonly<Record<string, string>>,
  [file, ...args]: Command = direct("examples/payments/main.ts")
) {
  const port = environment["PORT"] ?? String(yield* freePort)
  return yield* Effect.acquireRelease(
    Effect.promise(async (): Promise<PaymentsProcess> => {
      const child = spawn(file, args, { env: basis({ PORT: port, ...environment }) })
      const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>
      let stdout = ""
      let stderr = ""
      child.stderr.setEncoding("utf8").on("data", (chunk: string) => stderr += chunk)
      const token = await new Promise<string>((resolve, reject) => {
        child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
          stdout += chunk
          const match = /curl \S+\/v1\/operations -H 'Authorization: Bearer (\S+)'\n/.exec(stdout)
          if (match !== null) resolve(match[1]!)
        })
        child.once("close", () => reject(new Error(`the example ended: ${stdout}${stderr}`)))
      })
      return {
        url: `http://127.0.0.1:${port}`,
        token,
        pid: child.pid!,
        printed: () => stdout,
        prints: (pattern) =>
          Effect.promise(async () => {
            while (!pattern.test(stdout)) await once(child.stdout, "data")
          }),
        stop: (signal) =>
          Effect.promise(async () => {
            if (!hasEnded(child)) child.kill(signal)
            const [code, died] = await ended
            return died ?? code
          })
      }
    }),
    ({ stop }) => stop("SIGTERM")
  )
})

/** Runs the payments example until it ends by itself. */
export const failing = Effect.fnUntraced(function*(environment: Readonly<Record<string, string>>) {
  const port = String(yield* freePort)
  const [file, ...args] = direct("examples/payments/main.ts")
  return yield* Effect.promise(() =>
    new Promise<{ readonly code: unknown; readonly stdout: string; readonly stderr: string }>((resolve) => {
      execFile(
        file,
        args,
        { env: basis({ PORT: port, ...environment }) },
        (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr })
      )
    })
  )
})

/** A JSON response, with the headers that the tests check. */
export interface Answer {
  readonly status: number
  readonly location: string | null
  readonly retryAfter: string | null
  readonly challenge: string | null
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check the members that they use
  readonly body: any
}

export const ask = (url: string, request: RequestInit = {}): Effect.Effect<Answer, unknown> =>
  Effect.tryPromise(async () => {
    const response = await fetchServed(url, request)
    return {
      status: response.status,
      location: response.headers.get("location"),
      retryAfter: response.headers.get("retry-after"),
      challenge: response.headers.get("www-authenticate"),
      body: await response.json()
    }
  })

export const rent = {
  amount: "750.00",
  currency: "EUR",
  creditor: { name: "Landlord", iban: "DE89370400440532013000" }
}

/** Requests a payment. A null key omits the header. */
export const pay = (
  { token, url }: Pick<PaymentsProcess, "token" | "url">,
  key: string | null,
  payment: unknown = rent
) =>
  ask(`${url}/v1/payments`, {
    method: "POST",
    body: JSON.stringify(payment),
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      ...key === null ? {} : { "idempotency-key": key }
    }
  })

/** Reads the operation until it is final. */
export const settled = Effect.fnUntraced(function*(location: string, token: string) {
  while (true) {
    const { body } = yield* ask(location, { headers: { authorization: `Bearer ${token}` } })
    if (body.terminal === true) return body
    yield* Effect.sleep("50 millis")
  }
})
