/**
 * Restate: its server, and a service whose handler makes the payment in a durable step.
 *
 * - The handler with `ctx.rand.uuidv4()` as key and `ctx.run`: "Microservice Orchestration",
 *   https://docs.restate.dev/use-cases/microservice-orchestration, and "Sagas", one-shot APIs with idempotency key,
 *   https://docs.restate.dev/guides/sagas#advanced:-idempotency-and-compensations
 * - Retries, terminal errors, pausing: "Error Handling", https://docs.restate.dev/guides/error-handling, and "Service
 *   Configuration", https://docs.restate.dev/services/configuration#retries
 * - Acceptance: "TypeScript SDK Clients", https://docs.restate.dev/services/invocation/clients/typescript-sdk
 * - A deploy, old deployments stay until they are drained: "Versioning", https://docs.restate.dev/services/versioning
 * - What became of it: "Introspection", https://docs.restate.dev/services/introspection
 *
 * `default`: the retry policy of the server (70 attempts with backoff, then the invocation pauses for a person).
 * `tuned`: one attempt of the invocation, then it pauses ("Service Configuration"). Only what cannot pay twice is sent
 * again, by the retry policy of the step. An unclear answer waits for a person, as in "External Events",
 * https://docs.restate.dev/develop/ts/external-events
 */
import * as restate from "@restatedev/restate-sdk"
import * as clients from "@restatedev/restate-sdk-clients"
import { once } from "node:events"
import * as http2 from "node:http2"
import { createRequire } from "node:module"
import { setTimeout } from "node:timers/promises"
import type { Outcome, Payment } from "../types.ts"
import { maySendAgain, pay, Refused, untilStopped } from "./bank.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

/** At a bank whose keys last, the default is as safe as any tuning. */
const isTuned = settings.variant === "tuned" && settings.bankKeys !== "forever"
const address = (offset: number) => `127.0.0.1:${settings.portBase + offset}`
const ingress = address(0)
const admin = address(1)
/** Each version of the code has an address for ever. Both workers listen there, as behind a load balancer. */
const deploymentPort = (version: number) => settings.portBase + 3 + version

const runOptions = isTuned ? { initialRetryInterval: 1000, retryIntervalFactor: 2, maxRetryAttempts: 10 } : {}

const unclear = "unclear"

/** In the tuned variant, what may not be sent again is a result, so that the step does not run again. */
const payInStep = async (payment: Payment, key: string): Promise<string> => {
  try {
    return await pay(payment, key)
  } catch (error) {
    if (error instanceof Refused) throw new restate.TerminalError(error.message, { errorCode: 422 })
    if (isTuned && !maySendAgain(error)) return unclear
    throw error
  }
}
const payments = restate.service({
  name: "Payments",
  handlers: {
    pay: async (ctx: restate.Context, payment: Payment): Promise<string> => {
      const key = ctx.rand.uuidv4()
      const result = await ctx.run("pay", () => payInStep(payment, key), runOptions)
      // A person looks at the bank, and resolves it with what the bank says.
      return result === unclear ? await ctx.awakeable<string>().promise : result
    }
  },
  // After the inactivity timeout, which is longer than a request, an invocation that waits for a person is suspended.
  options: isTuned ? { retryPolicy: { maxAttempts: 1, onMaxAttempts: "pause" }, inactivityTimeout: 6000 } : {}
})

/** What the server reads from its environment: "Restate Server Configuration", https://docs.restate.dev/server/configuration */
const serverEnvironment = {
  RESTATE_BASE_DIR: settings.stateDirectory,
  RESTATE_NODE_NAME: "payments",
  RESTATE_LISTEN_MODE: "tcp",
  RESTATE_BIND_ADDRESS: address(2),
  RESTATE_INGRESS__BIND_ADDRESS: ingress,
  RESTATE_ADMIN__BIND_ADDRESS: admin,
  RESTATE_DISABLE_TELEMETRY: "true",
  RESTATE_LOG_FILTER: "error,octocrab=off",
  // The liveness check of the connections to the workers.
  RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL: `${settings.leaseSeconds}s`,
  RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT: `${settings.leaseSeconds}s`
}

const askAdmin = async (route: string, body: object): Promise<unknown> => {
  const headers = { "content-type": "application/json", accept: "application/json" }
  const response = await fetch(`http://${admin}${route}`, { method: "POST", headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
  return response.json()
}

const serve = (version: number) => {
  const sessions = new Set<http2.ServerHttp2Session>()
  const server = http2.createServer(restate.createEndpointHandler({ services: [payments], logger: () => {} }))
  server.on("session", (session) => sessions.add(session))
  server.listen({ host: "127.0.0.1", port: deploymentPort(version), reusePort: true })
  return async () => {
    const closed = once(server, "close")
    server.close()
    for (const session of sessions) session.close()
    await closed
  }
}

const register = async (version: number) => {
  while (!(await fetch(`http://${admin}/health`).then(({ ok }) => ok, () => false))) await setTimeout(100)
  await askAdmin("/deployments", { uri: `http://127.0.0.1:${deploymentPort(version)}` })
}

type Invocation = Readonly<Record<"id" | "status" | "result" | "reason", string>>

const invocations = `
  SELECT idempotency_key AS id, status, completion_result AS result,
    coalesce(completion_failure, last_failure, status) AS reason
  FROM sys_invocation`

const toldOf = ({ result, status }: Invocation): Outcome["told"] => {
  if (status === "completed") return result === "success" ? "paid" : "failed"
  return status === "paused" || status === "suspended" ? "person" : "open"
}

await runCommand({
  prepare: async () => {
    const stop = serve(1)
    await register(1)
    await stop()
  },
  server: async () => {
    const name = `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`
    const binary = createRequire(import.meta.url).resolve(name)
    // `prepare` and `work` wait until it answers.
    ready()
    process.execve!(binary, [binary, "--no-logo"], { ...process.env as Record<string, string>, ...serverEnvironment })
  },
  work: async () => {
    const stops = Array.from({ length: settings.codeVersion }, (_, index) => serve(index + 1))
    await register(settings.codeVersion)
    ready()
    await untilStopped(async () => void await Promise.all(stops.map((stop) => stop())))
  },
  accept: async () => {
    const client = clients.connect({ url: `http://${ingress}` }).serviceSendClient(payments)
    for (const payment of await readPayments()) {
      await client.pay(payment, clients.rpc.sendOpts({ idempotencyKey: payment.id }))
      accepted(payment.id)
    }
  },
  outcomes: async () => {
    const { rows } = await askAdmin("/query", { query: invocations }) as { rows: ReadonlyArray<Invocation> }
    for (const row of rows) tellOutcome({ id: row.id, told: toldOf(row), reason: row.reason })
  }
})
