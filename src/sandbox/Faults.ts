/**
 * The faults that the sandbox injects, and the requests that they strike.
 *
 * The seed, the submission's key and the fault's name decide whether a fault strikes. For faults of the transport the
 * number of the attempt counts too (receipts of the key, or reads of its status). So an answer that was lost once may
 * arrive the next time.
 */
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"

/** Returns a number in [0, 1), evenly distributed. The same seed and parts give the same number. */
export const chance = (seed: string, ...parts: ReadonlyArray<string | number>): number =>
  Number.parseInt(digest(seed, ...parts).slice(0, 12), 16) / 2 ** 48

/** Returns 64 hexadecimal digits. The same seed and parts give the same digits. */
export const digest = (seed: string, ...parts: ReadonlyArray<string | number>): string =>
  // JSON keeps different lists of parts different.
  hash("sha256", JSON.stringify([seed, ...parts]))

/** The kind of a request: it brings a submission, or reads its status. */
export type Stage = "submission" | "status"

/** The range of a timer: up to 24 days. */
export const Milliseconds = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2_147_483_647 }))

const Rate = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Count = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))

const ms = { ms: Schema.optionalKey(Milliseconds) }
const on = { on: Schema.optionalKey(Schema.Literals(["submission", "status", "both"])) }
const reads = { reads: Schema.optionalKey(Count) }
const times = { times: Schema.optionalKey(Count) }

const switched = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.optionalKey(Schema.Struct({ rate: Rate, ...fields }))

/**
 * The switches. `rate`, from 0 to 1, is the share of requests or keys that the fault strikes. A switch that is left out
 * is off. `on` selects the requests that a fault of the transport strikes, by default both kinds.
 */
export const FaultSettings = Schema.Struct({
  /** Handles the request only after `ms` (250). Until then the submission is not known, and there is no answer. */
  slow: switched({ ...ms, ...on }),
  /** Resets the connection before anything is read. At rate 1 the port is closed. Independent of keys. */
  refuse_connection: switched({}),
  /**
   * Answers 429 with `Retry-After` to requests beyond `requests` (50) in `ms` (1,000): submissions and status reads together.
   * They are not carried out, and not in the record. Independent of keys.
   */
  too_many_requests: switched({ ...ms, requests: Schema.optionalKey(Count) }),
  /** Answers 401, as if the key of the client had changed. Nothing is carried out or recorded. Independent of keys. */
  unauthorized: switched({}),
  /** Carries out the request, and closes the connection without a byte. */
  drop_response: switched(on),
  /** Carries out the request, and answers 502 with HTML, as a proxy in front of the provider would. */
  bad_gateway: switched(on),
  /** Carries out the request, sends half of the answer, and resets the connection. */
  reset_mid_body: switched(on),
  /** Carries out the request, and answers with the right status and a body that is no JSON. */
  garbage_body: switched(on),
  /** Carries out the request, and answers with the right status and body, under the content type of HTML. */
  wrong_content_type: switched(on),
  /** Carries out the request at once, and answers `ms` (120,000) later. Strikes submissions by default. */
  late: switched({ ...ms, ...on }),
  /** Status reads answer 404 until `ms` (2,000) after the submission took effect. */
  not_found_for: switched(ms),
  /** Answers 409 to a repeated key instead of its first answer. */
  duplicate_key_rejected: switched({}),
  /** The first `reads` (8) status reads answer in turn: pending, the true status, 404, 502. */
  flapping_status: switched(reads),
  /** Answers 200 with the status of another submission, which succeeded. A submission is carried out nevertheless. */
  foreign_answer: switched(on),
  /** Closes the connection. The submission is not carried out, now or later. */
  lose: switched({}),
  /** Sends each webhook of the submission twice. */
  webhook_duplicate: switched({}),
  /** Sends the webhook of the acceptance after that of the outcome. */
  webhook_reorder: switched({}),
  /** Sends each webhook of the submission `ms` (2,000) later. */
  webhook_delay: switched(ms),
  /** Sends a webhook with another outcome, signed with another secret, before each true one. */
  webhook_forge: switched({}),
  /** Sends no webhook of the submission. */
  webhook_lose: switched({})
})
export type FaultSettings = typeof FaultSettings.Type
type FaultName = keyof FaultSettings

const instructed = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.optionalKey(Schema.Union([Schema.Boolean, Schema.Struct(fields)]))

/**
 * The faults of one submission. They take precedence over the switches: true or an object switches a fault on, false
 * switches it off. By default a fault strikes the submission and no status read; `on` changes that. `times` limits it
 * to the first attempts.
 */
export const InstructedFaults = Schema.Struct({
  slow: instructed({ ...ms, ...on, ...times }),
  drop_response: instructed({ ...on, ...times }),
  bad_gateway: instructed({ ...on, ...times }),
  reset_mid_body: instructed({ ...on, ...times }),
  garbage_body: instructed({ ...on, ...times }),
  wrong_content_type: instructed({ ...on, ...times }),
  late: instructed({ ...ms, ...on, ...times }),
  not_found_for: instructed(ms),
  duplicate_key_rejected: instructed({}),
  flapping_status: instructed(reads),
  foreign_answer: instructed({ ...on, ...times }),
  lose: instructed({}),
  webhook_duplicate: instructed({}),
  webhook_reorder: instructed({}),
  webhook_delay: instructed(ms),
  webhook_forge: instructed({}),
  webhook_lose: instructed({})
})
export type InstructedFaults = typeof InstructedFaults.Type

/** A fault whose strike depends on the key of the submission. */
type KeyedFault = Exclude<FaultName, "refuse_connection" | "too_many_requests" | "unauthorized">

/** Names of all faults, in the order of the help text. */
export const faultNames = Object.keys(FaultSettings.fields) as ReadonlyArray<FaultName>

/** Faults that spoil an answer. If several strike, the first of these spoils it. */
const spoilers = [
  "drop_response",
  "reset_mid_body",
  "garbage_body",
  "wrong_content_type",
  "bad_gateway"
] as const
export type Spoiler = typeof spoilers[number]

const transport: ReadonlySet<FaultName> = new Set(["slow", "late", "foreign_answer", ...spoilers])

const defaultMilliseconds: Partial<Record<FaultName, number>> = {
  slow: 250,
  late: 120_000,
  not_found_for: 2000,
  webhook_delay: 2000
}
const defaultReads = 8

export interface Occasion {
  readonly key: string
  readonly stage: Stage
  /** Number of the receipt of the key, or of the read of its status, from 1. */
  readonly attempt: number
  readonly instructed: InstructedFaults | undefined
}

interface Parameters {
  readonly ms?: number
  readonly on?: Stage | "both"
  readonly reads?: number
  readonly times?: number
}

export interface Strike {
  readonly milliseconds: number
  readonly reads: number
}

const strike = (name: FaultName, { ms, reads }: Parameters): Strike => ({
  milliseconds: ms ?? defaultMilliseconds[name] ?? 0,
  reads: reads ?? defaultReads
})

const covers = (on: Stage | "both", stage: Stage): boolean => on === "both" || on === stage

const instructedStrike = (name: FaultName, order: boolean | Parameters, { attempt, stage }: Occasion) => {
  if (order === false) return null
  const parameters: Parameters = order === true ? {} : order
  if (attempt > (parameters.times ?? Infinity)) return null
  return !transport.has(name) || covers(parameters.on ?? "submission", stage) ? strike(name, parameters) : null
}

/** The strike of a fault on an occasion, or null. The same seed, settings and occasion give the same result. */
const strikes = (
  seed: string,
  settings: FaultSettings,
  name: KeyedFault,
  occasion: Occasion
): Strike | null => {
  const order = occasion.instructed?.[name]
  if (order !== undefined) return instructedStrike(name, order, occasion)
  const setting: Parameters & { readonly rate: number } | undefined = settings[name]
  if (setting === undefined || setting.rate === 0) return null
  const { attempt, key, stage } = occasion
  if (!transport.has(name)) return chance(seed, name, key) < setting.rate ? strike(name, setting) : null
  if (!covers(setting.on ?? (name === "late" ? "submission" : "both"), stage)) return null
  return chance(seed, name, key, stage, attempt) < setting.rate ? strike(name, setting) : null
}

/** Finds the faults that strike on an occasion, and collects their names. */
export const strikesOn = (seed: string, settings: () => FaultSettings, occasion: Occasion) => {
  const names: Array<FaultName> = []
  const find = (name: KeyedFault): Strike | null => {
    const strike = strikes(seed, settings(), name, occasion)
    if (strike !== null) names.push(name)
    return strike
  }
  const onTheWay = () => ({
    late: find("late")?.milliseconds ?? 0,
    spoiler: spoilers.find((name) => find(name) !== null) ?? null
  })
  return { names, find, onTheWay }
}

export type StruckFaults = ReturnType<typeof strikesOn>

/** Whether the connection with this number is refused. */
export const refuses = (seed: string, settings: FaultSettings, connection: number): boolean =>
  chance(seed, "refuse_connection", connection) < (settings.refuse_connection?.rate ?? 0)
