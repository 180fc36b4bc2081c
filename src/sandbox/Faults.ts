/**
 * The ways in which the sandbox misbehaves, and when it does.
 *
 * Whether a fault strikes is decided by the seed, the submission's key and the fault's name; faults of the transport also
 * count attempts (receipts of the key, or reads of its status), so that what was lost once may arrive the next time.
 */
import * as Schema from "effect/Schema"
import { chance } from "./Chance.ts"

/** What a request is for: handing in a submission, or reading its status. */
export type Stage = "submission" | "status"

/** What a timer can wait for: 24 days. */
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
 * The switches: how often each fault strikes, from 0 to 1. What is left out is off. `on` says which requests a fault of
 * the transport strikes: both kinds unless told.
 */
export const FaultSettings = Schema.Struct({
  /** Takes the request up only after `ms` (250): until then the submission is not known, and there is no answer. */
  slow: switched({ ...ms, ...on }),
  /** Resets the connection before anything was read; at rate 1 nothing listens any more. Knows no keys. */
  refuse_connection: switched({}),
  /** Carries out, and closes the connection without a byte. */
  drop_response: switched(on),
  /** Carries out, and answers 502 with HTML, as a proxy in front of it would. */
  bad_gateway: switched(on),
  /** Carries out, sends half of the answer, and resets the connection. */
  reset_mid_body: switched(on),
  /** Carries out, and answers with the right status and a body that is no JSON. */
  garbage_body: switched(on),
  /** Carries out at once, and answers `ms` (120,000) later. Strikes submissions unless told. */
  late: switched({ ...ms, ...on }),
  /** Status reads answer 404 until `ms` (2,000) after the submission took effect. */
  not_found_for: switched(ms),
  /** A key that was received before gets 409 instead of its first answer. */
  duplicate_key_rejected: switched({}),
  /** The first `reads` (8) status reads answer in turn as pending, truly, 404 and 502. */
  flapping_status: switched(reads),
  /** Answers 200 with the status of another submission, which succeeded. A submission is carried out all the same. */
  foreign_answer: switched(on),
  /** Closes the connection having carried out nothing, now and for ever. */
  lose: switched({})
})
export type FaultSettings = typeof FaultSettings.Type
export type FaultName = keyof FaultSettings

const instructed = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.optionalKey(Schema.Union([Schema.Boolean, Schema.Struct(fields)]))

/**
 * The faults of one submission, whatever the switches say: true or an object to strike, false to spare. They strike the
 * submission alone unless `on` says otherwise, each time or only the first `times`.
 */
export const InstructedFaults = Schema.Struct({
  slow: instructed({ ...ms, ...on, ...times }),
  drop_response: instructed({ ...on, ...times }),
  bad_gateway: instructed({ ...on, ...times }),
  reset_mid_body: instructed({ ...on, ...times }),
  garbage_body: instructed({ ...on, ...times }),
  late: instructed({ ...ms, ...on, ...times }),
  not_found_for: instructed(ms),
  duplicate_key_rejected: instructed({}),
  flapping_status: instructed(reads),
  foreign_answer: instructed({ ...on, ...times }),
  lose: instructed({})
})
export type InstructedFaults = typeof InstructedFaults.Type

/** Names of all faults, in the order in which they are shown. */
export const faultNames = Object.keys(FaultSettings.fields) as ReadonlyArray<FaultName>

/** Faults that spoil an answer. One answer can be spoilt in one way: the first of these that strikes. */
export const spoilers = ["drop_response", "reset_mid_body", "garbage_body", "bad_gateway"] as const
export type Spoiler = typeof spoilers[number]

const transport: ReadonlySet<FaultName> = new Set(["slow", "late", "foreign_answer", ...spoilers])

const defaultMilliseconds: Partial<Record<FaultName, number>> = { slow: 250, late: 120_000, not_found_for: 2000 }
const defaultReads = 8

/** A request, as far as faults care. */
export interface Occasion {
  readonly key: string
  readonly stage: Stage
  /** Which receipt of the key, or which read of its status, counted from 1. */
  readonly attempt: number
  readonly instructed: InstructedFaults | undefined
}

/** What the members of a switch and of an instruction may be, all in one. */
interface Parameters {
  readonly ms?: number
  readonly on?: Stage | "both"
  readonly reads?: number
  readonly times?: number
}

/** A fault that strikes, with what it needs to know. */
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

/** Whether a fault strikes on an occasion, and how. Always the same for the same seed, settings and occasion. */
export const strikes = (
  seed: string,
  settings: FaultSettings,
  name: Exclude<FaultName, "refuse_connection">,
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

/** Whether the connection of this number is refused. */
export const refuses = (seed: string, settings: FaultSettings, connection: number): boolean =>
  chance(seed, "refuse_connection", connection) < (settings.refuse_connection?.rate ?? 0)
