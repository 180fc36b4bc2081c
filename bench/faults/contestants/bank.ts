/** The request to the bank that the peers share, so that they differ only in what calls it, and how often. */
import type { Payment } from "../types.ts"
import { settings } from "./shared.ts"

/** The bank refused the payment for good. */
export class Refused extends Error {}
/** The bank did not take the payment, so a later request cannot pay twice. */
export class NotTaken extends Error {}
/** The bank may have paid. */
export class Unclear extends Error {}

const post = async ({ amount, currency, id, payee }: Payment, key: string): Promise<Response> => {
  try {
    return await fetch(`${settings.bankUrl}/payments`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${settings.bankToken}`,
        "content-type": "application/json",
        ...settings.bankKeys === "none" ? {} : { "idempotency-key": key }
      },
      body: JSON.stringify({ reference: id, amount, currency, payee }),
      signal: AbortSignal.timeout(settings.requestTimeout)
    })
  } catch (error) {
    const { cause = error } = error as { readonly cause?: unknown }
    const { code } = cause as { readonly code?: string }
    throw code === "ECONNREFUSED" ? new NotTaken("connection refused") : new Unclear(`no answer: ${String(cause)}`)
  }
}

/**
 * Sends one `POST` and returns the bank's id of the payment. The key is sent if the bank documents keys. Throws
 * `Refused`, `NotTaken` or `Unclear`.
 */
export const pay = async (payment: Payment, key: string): Promise<string> => {
  const response = await post(payment, key)
  const body = await response.text().catch((error: unknown) => {
    throw new Unclear(`answer cut off: ${String(error)}`)
  })
  if (response.ok) return (JSON.parse(body) as { readonly id: string }).id
  const text = `${response.status} ${body.slice(0, 200)}`
  if (response.status === 429 || response.status === 503) throw new NotTaken(text)
  throw response.status < 500 ? new Refused(text) : new Unclear(text)
}

/** Whether no later request can pay twice: for the tuned variants, which send again only then. */
export const maySendAgain = (error: unknown): boolean =>
  error instanceof NotTaken || error instanceof Unclear && settings.bankKeys === "forever"

/** Waits for SIGTERM, ends gracefully, and exits. */
export const untilStopped = async (stop: () => Promise<void>): Promise<never> => {
  await new Promise((resolve) => process.once("SIGTERM", resolve))
  await stop()
  process.exit()
}
