/** The history of a run: what clients sent, and what they got. Times are milliseconds of the monotonic clock. */
import { Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Receipt } from "../../../../src/sandbox/Record.ts"
import { receiptsIn } from "../kit/Sandbox.ts"

export const requestKinds = ["accept", "read", "list", "feed", "issue", "revoke"] as const

/** An operation as an answer told it. */
export const Told = Schema.Struct({
  id: Schema.String,
  revision: Schema.Int,
  state: Schema.String,
  /** Digest of the whole body: it is a function of the revision, and of whether the operation is under review. */
  body: Schema.String,
  under_review: Schema.Boolean
})
export type Told = typeof Told.Type

export const Exchange = Schema.Struct({
  kind: Schema.Literals(requestKinds),
  port: Schema.Int,
  /** When the request left, and when the answer was complete or given up. */
  from: Schema.Number,
  to: Schema.Number,
  /** Null: no answer, and `problem` says why. */
  status: Schema.NullOr(Schema.Int),
  problem: Schema.optionalKey(Schema.String),
  /** The idempotency key of an acceptance. */
  key: Schema.optionalKey(Schema.String),
  /** The operation that a read names. */
  id: Schema.optionalKey(Schema.String),
  /** The grant that the request used, or that it issued or revoked. */
  grant: Schema.optionalKey(Schema.String),
  /** How many payments the limits of the issued grant permit. */
  budget: Schema.optionalKey(Schema.Int),
  told: Schema.Array(Told)
})
export type Exchange = typeof Exchange.Type

const ExchangeLine = Schema.fromJsonString(Exchange)
const encode = Schema.encodeSync(ExchangeLine)
const decode = Schema.decodeSync(ExchangeLine)

export const isSuccess = ({ status }: Exchange): boolean => status !== null && status >= 200 && status < 300

/** The limits of the grant refuse the acceptance. */
export const isLimited = ({ problem, status }: Exchange): boolean => status === 403 && problem === "limit_exceeded"

/** Appends to the file. Lines are complete, also if the process is killed. */
export const makeHistoryWriter = (file: string) => {
  const descriptor = fs.openSync(file, "a")
  return (exchange: Exchange): void => void fs.writeSync(descriptor, `${encode(exchange)}\n`)
}

const linesOf = (file: string): ReadonlyArray<string> =>
  fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").filter((line) => line !== "") : []

/** A fault as it happened. Times as above. */
export const Injected = Schema.Struct({
  name: Schema.String,
  details: Schema.String,
  from: Schema.Number,
  /** When the network, the processes and the settings were as before. */
  healed: Schema.Number,
  /** When the cluster had a primary and two standbys again, and clients were served. */
  whole: Schema.Number,
  /** Whether two of three nodes, and etcd, could work together during the fault. */
  leavesMajority: Schema.Boolean,
  /** Unsent operations that the ledger held afterwards. */
  held: Schema.Int
})
export type Injected = typeof Injected.Type

/** The frame of a run. */
export const RunFacts = Schema.Struct({
  seed: Schema.String,
  /** The wall clock and the monotonic clock at one instant. The sandbox records the wall clock. */
  clock: Schema.Struct({ wall: Schema.Number, monotonic: Schema.Number }),
  /** Whether submissions must resume without a command. */
  resumes: Schema.Boolean,
  faults: Schema.Array(Injected),
  /** Processes of the gateway that ended by themselves. */
  deaths: Schema.Array(Schema.String),
  /** How often each operation was sent to the sandbox, received or not. */
  sent: Schema.Record(Schema.String, Schema.Int)
})
export type RunFacts = typeof RunFacts.Type

const FactsText = Schema.fromJsonString(RunFacts)
export const encodeFacts = Schema.encodeSync(FactsText)
const decodeFacts = Schema.decodeSync(FactsText)

/** Names of the files of a run. */
export const files = {
  history: "history.jsonl",
  record: "sandbox.jsonl",
  facts: "run.json",
  report: "report.txt"
} as const

/** The evidence of a run, for the judge. */
export interface Evidence {
  readonly history: ReadonlyArray<Exchange>
  /** What the sandbox received. */
  readonly receipts: ReadonlyArray<Receipt>
  readonly facts: RunFacts
}

/** Reads the evidence of the run in this directory. */
export const readEvidence = (directory: string): Evidence => ({
  history: linesOf(path.join(directory, files.history)).map((line) => decode(line)),
  receipts: receiptsIn(linesOf(path.join(directory, files.record))),
  facts: decodeFacts(fs.readFileSync(path.join(directory, files.facts), "utf8"))
})
