/** What the harness, the bank and the contestants of `npm run compare:faults` share. */

/** What the bank documents about `Idempotency-Key`: honoured for ever, for 24 hours, or ignored. */
export const keyModes = ["forever", "forgets", "none"] as const
export type KeyMode = typeof keyModes[number]

/** A payment that a client orders: one line of JSON on the standard input of `accept`. */
export interface Payment {
  readonly id: string
  /** Decimal text, such as `12.50`. */
  readonly amount: string
  readonly currency: "EUR"
  readonly payee: string
}

/** What a contestant tells of a payment. `person`: it does not know, and needs a person. */
export type Told = "paid" | "failed" | "open" | "person"

/** A line of `outcomes`. */
export interface Outcome {
  readonly id: string
  readonly told: Told
  readonly reason: string
}

export type VariantName = "default" | "tuned"

export interface Variant {
  readonly name: VariantName
  /** Title and address of the page that the adapter follows. */
  readonly documentation: string
  /** What the system promises, and what it does not. One sentence. */
  readonly promises: string
}

export interface Contestant {
  readonly name: string
  /** The program, within `contestants`. */
  readonly program: string
  /** Versions of the packages, by name. */
  readonly versions: Readonly<Record<string, string>>
  readonly variants: ReadonlyArray<Variant>
  /** Whether it has a server of its own, which `server` runs. */
  readonly needsServer: boolean
  /** Whether it needs packages of `bench/faults/package.json`. */
  readonly needsOwnPackages: boolean
}

/** How the bank treats a request to pay. Each strikes the n-th request of a payment. */
export const bankFaults = [
  /** The connection is reset before anything is booked. */
  "lost_before",
  /** The payment is booked, and the connection is reset. */
  "lost_after",
  /** The payment is booked, and the answer is 500. */
  "error_after",
  /** 503, and nothing is booked. The bank documents that. */
  "unavailable",
  /** The payment is booked, a webhook is sent, and the answer follows a second later. */
  "webhook_first",
  /** The same, and the answer is lost. */
  "webhook_then_lost",
  /** Held before the booking, until an order of the harness. */
  "hold_before",
  /** Booked, and the answer is held until an order of the harness. */
  "hold_after"
] as const
export type BankFault = typeof bankFaults[number]

/** A fault of the bank, for the n-th request of a payment, from 1. */
export interface PlannedFault {
  readonly id: string
  readonly request: number
  readonly fault: BankFault
}

/** An order to the bank: a line of JSON on its standard input. */
export type BankOrder =
  | { readonly order: "faults"; readonly faults: ReadonlyArray<PlannedFault> }
  /** Held requests go on. */
  | { readonly order: "release" }
  /** The connections of held requests are reset. What was not booked is not booked. */
  | { readonly order: "discard" }
  /** The bank forgets all keys, as it documents: 24 hours have passed. */
  | { readonly order: "forget" }

/** What happened at the bank: a line of JSON on its standard output. `at` is in milliseconds of the monotonic clock. */
export interface BankEvent {
  readonly at: number
  readonly event:
    | "arrived"
    | "booked"
    /** The key was known: the bank answers as it did before. */
    | "repeated"
    | "answered"
    | "held"
    | "lost"
    | "webhook"
    | "read"
  /** The payment. Empty for a read that names none. */
  readonly id: string
  /** Sequence number of the requests to pay of this payment, from 1. */
  readonly request?: number
  readonly status?: number
}

/** The configuration of the bank: JSON in its environment. */
export interface BankConfig {
  readonly keys: KeyMode
  readonly token: string
  /** Where workers may listen for webhooks. */
  readonly webhookPorts: ReadonlyArray<number>
}

export const configVariable = "FAULTS_BANK"
