/** The session of this browser. */
import type {
  ActionRequest,
  AdvanceRequest,
  ConsoleSession,
  csrfHeader,
  DecisionRequest,
  Detail,
  OperatorPage,
  TermsAnswer
} from "../../src/operator/console/ConsoleApi.ts"
import { connection } from "./connection.ts"
import { request, Unreachable } from "./request.ts"
import { createStore } from "./store.ts"

export const session = createStore<ConsoleSession | null>(null)

/** Milliseconds between two attempts to read the session. */
const retryAfter = 3000

export const readSession = async (): Promise<void> => {
  try {
    session.set(await request<ConsoleSession>("/session"))
  } catch {
    if (!connection.get().ended) setTimeout(readSession, retryAfter)
  }
}

const csrf: typeof csrfHeader = "x-csrf-token"

const signed = (): Readonly<Record<string, string>> => {
  const now = session.get()
  if (now === null) throw new Unreachable()
  return { [csrf]: now.csrf_token }
}

const post = async <A>(path: string, body: object): Promise<A> =>
  request<A>(path, {
    method: "POST",
    headers: { ...signed(), "content-type": "application/json" },
    body: JSON.stringify(body)
  })

/** Asks the ledger for an action. Returns the operation after it. */
export const act = (id: string, action: ActionRequest): Promise<Detail> =>
  post(`/operations/${encodeURIComponent(id)}/actions`, action)

/** Asks the ledger to record a decision. Returns the operation after it. */
export const decide = (id: string, decision: DecisionRequest): Promise<Detail> =>
  post(`/operations/${encodeURIComponent(id)}/decision`, decision)

/** Asks the ledger to record an outcome. Returns the operation after it. */
export const advance = (id: string, advance: AdvanceRequest): Promise<Detail> =>
  post(`/operations/${encodeURIComponent(id)}/advance`, advance)

/** The terms of operations, as they are. The server records who sees them. */
export const showTerms = (operations: ReadonlyArray<string>): Promise<TermsAnswer> => post("/terms", { operations })

/** The latest operations of a payee, with their terms. The server records who sees them. */
export const findPayee = (payee: string): Promise<OperatorPage> => post("/payee", { payee })

/** Ends the session, and loads the page again: the server then shows how to sign in. */
export const signOut = async (): Promise<void> => {
  await request<void>("/session", { method: "DELETE", headers: signed() }).catch(() => {})
  location.assign("/console")
}
