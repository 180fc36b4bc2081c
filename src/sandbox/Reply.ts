/**
 * A reply of the sandbox: the answer to a request, and the faults that strike it.
 */
import type * as Schema from "effect/Schema"
import type { Answer, Dialect, RequestHead } from "./Dialect.ts"
import {
  type FaultName,
  type FaultSettings,
  type KeyedFault,
  type Occasion,
  type Spoiler,
  spoilers,
  type Strike,
  strikes
} from "./Faults.ts"
import { foreignKnown } from "./SandboxOutcome.ts"

/** The answer to a request, and the faults on its way. Times in milliseconds. */
export interface Reply {
  /** Pause before `answer` is called. */
  readonly slow: number
  /** Called after that pause. Null closes the connection. */
  readonly answer: () => Answer | null
  /** Pause between the answer and its first byte. */
  readonly late: number
  readonly spoiler: Spoiler | null
}

/** What a reply depends on, beside the request. */
export interface ReplyOptions {
  readonly dialect: Dialect
  readonly seed: string
  readonly faults: () => FaultSettings
}

/** Finds the faults that strike on an occasion, and collects their names. */
export const strikesOn = (options: Pick<ReplyOptions, "seed" | "faults">, occasion: Occasion) => {
  const names: Array<FaultName> = []
  const find = (name: KeyedFault): Strike | null => {
    const strike = strikes(options.seed, options.faults(), name, occasion)
    if (strike !== null) names.push(name)
    return strike
  }
  const onTheWay = (): Pick<Reply, "late" | "spoiler"> => ({
    late: find("late")?.milliseconds ?? 0,
    spoiler: spoilers.find((name) => find(name) !== null) ?? null
  })
  return { names, find, onTheWay }
}

export type StruckFaults = ReturnType<typeof strikesOn>

/** Answers with the status of another submission. */
export const foreignAnswer = (
  { dialect, seed }: ReplyOptions,
  key: string,
  fate: { readonly echo: Schema.Json } | undefined,
  head: RequestHead,
  now: number
): Answer => dialect.write({ _tag: "Status", known: foreignKnown(seed, key, fate?.echo ?? null, now) }, head)
