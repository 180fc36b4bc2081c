/**
 * `operations`: accepts, changes and shows operations of the ledger.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { GrantId, type GrantIdentity } from "../domain/Grant.ts"
import {
  FinancialRequest,
  findTooDeep,
  IdempotencyKey,
  InvalidFinancialRequest,
  maxPayloadLevels
} from "../domain/Idempotency.ts"
import {
  HistoryEntry,
  OperationFailure,
  OperationId,
  operationStates,
  OperationType,
  type Outcome
} from "../domain/Operation.ts"
import { Grants } from "../services/Grants.ts"
import { type Accepted, OperationLedger } from "../services/OperationLedger.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { id, jsonFlag } from "./Flags.ts"
import { CommandFailed, print, publicForm } from "./Output.ts"

const identityOf = Effect.fn(function*(grant_id: GrantId) {
  const grants = yield* Grants
  const grant = yield* grants.show(grant_id)
  return { grant_id, client_id: grant.client_id, subject: grant.subject } satisfies GrantIdentity
})

const toResult = ({ created, operation }: Accepted) => ({ operation: publicForm(operation), created })

const decodeRequest = Schema.decodeUnknownEffect(Schema.fromJsonString(FinancialRequest), { onExcessProperty: "error" })

/** The message of an error, with the invalid members of the payload if the error names them. */
const payloadErrorMessage = (error: { readonly _tag: string; readonly message: string }): string => {
  if (error.message === "") return error._tag
  const fields = error instanceof InvalidFinancialRequest ? error.fields ?? [] : []
  const named = fields.map(({ message, path }) => `${["payload", ...path].join(".")}: ${message}`)
  return [error.message, ...named].join("; ")
}

/** The result of a batch line that was not accepted. The batch continues with the next line. */
const toError = (line: number, error: { readonly _tag: string; readonly message: string }) => ({
  line,
  error: {
    code: error._tag.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase(),
    message: payloadErrorMessage(error)
  }
})

/** Accepts NDJSON line by line, and prints one result for each line, in order. */
const acceptBatch = Effect.fn(function*(grant: GrantIdentity, from: string) {
  const ledger = yield* OperationLedger
  const fs = yield* FileSystem.FileSystem
  const stdio = yield* Stdio.Stdio
  const failed = yield* Ref.make(0)
  const bytes = from === "-" ? stdio.stdin : fs.stream(from)
  yield* bytes.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.zipWithIndex,
    Stream.filter(([line]) => line.trim() !== ""),
    Stream.mapEffect(([line, index]) =>
      decodeRequest(line).pipe(
        Effect.flatMap((request) => ledger.accept(grant, request)),
        Effect.map(toResult),
        Effect.catch((error) => Effect.as(Ref.update(failed, (n) => n + 1), toError(index + 1, error)))
      )
    ),
    Stream.runForEach(print)
  )
  const count = yield* Ref.get(failed)
  if (count > 0) return yield* new CommandFailed({ message: `${count} lines were not accepted` })
})

const accept = Command.make(
  "accept",
  {
    grant: Flag.String("grant").pipe(
      Flag.withDescription("Grant of the request"),
      Flag.withSchema(GrantId)
    ),
    type: Flag.String("type").pipe(
      Flag.withDescription("Kind of work, such as payment"),
      Flag.withSchema(OperationType),
      Flag.optional
    ),
    key: Flag.String("key").pipe(
      Flag.withDescription("Idempotency key: the same key and request always return the same operation"),
      Flag.withSchema(IdempotencyKey),
      Flag.optional
    ),
    payload: jsonFlag("payload").pipe(
      Flag.withDescription(
        "Payload for the provider, as JSON; - reads it from standard input, which keeps it out of the process list"
      ),
      Flag.optional
    ),
    from: Flag.String("from").pipe(
      Flag.withDescription(
        "File with one {\"type\",\"key\",\"payload\"} a line, or - for standard input; prints one result a line"
      ),
      Flag.optional
    )
  },
  Effect.fn(function*({ from, grant, key, payload, type }) {
    const identity = yield* identityOf(grant)
    if (Option.isSome(from)) {
      if (Option.isSome(type) || Option.isSome(key) || Option.isSome(payload)) {
        return yield* new CommandFailed({ message: "specify either --from, or --type, --key and --payload" })
      }
      return yield* acceptBatch(identity, from.value)
    }
    if (Option.isNone(type) || Option.isNone(key) || Option.isNone(payload)) {
      return yield* new CommandFailed({ message: "specify --type, --key and --payload, or --from" })
    }
    const ledger = yield* OperationLedger
    const request = { type: type.value, key: key.value, payload: payload.value }
    const accepted = yield* Effect.catchTag(
      ledger.accept(identity, request),
      "InvalidFinancialRequest",
      (error) => Effect.fail(new CommandFailed({ message: payloadErrorMessage(error) }))
    )
    yield* print(toResult(accepted))
  })
).pipe(
  Command.withDescription(
    "Accept financial requests into the ledger: one operation for each idempotency key. The command does not check the payloads that adapters declare"
  )
)

const toOutcome = (
  state: Outcome["state"],
  code: Option.Option<string>,
  message: Option.Option<string>
): Effect.Effect<Outcome, CommandFailed> => {
  const isFailure = Option.isSome(code) || Option.isSome(message)
  if (state !== "failed") {
    return isFailure
      ? Effect.fail(new CommandFailed({ message: "--failure-code and --failure-message need --to failed" }))
      : Effect.succeed({ state })
  }
  if (Option.isNone(code) || Option.isNone(message)) {
    return Effect.fail(new CommandFailed({ message: "--to failed requires --failure-code and --failure-message" }))
  }
  return Effect.succeed({ state, failure: { code: code.value, message: message.value } })
}

const advance = Command.make(
  "advance",
  {
    id: id(OperationId, "Operation"),
    to: Flag.Literals("to", operationStates).pipe(Flag.withDescription("State to move to")),
    evidence: jsonFlag("evidence").pipe(
      Flag.withDescription(
        "Evidence for the transition, as JSON, or - for standard input; required to leave indeterminate"
      ),
      Flag.withDefault(null)
    ),
    failureCode: Flag.String("failure-code").pipe(
      Flag.withDescription("Stable code of the failure, with --to failed"),
      Flag.withSchema(OperationFailure.fields.code),
      Flag.optional
    ),
    failureMessage: Flag.String("failure-message").pipe(
      Flag.withDescription("Explanation of the failure, with --to failed"),
      Flag.withSchema(OperationFailure.fields.message),
      Flag.optional
    )
  },
  Effect.fn(function*({ evidence, failureCode, failureMessage, id, to }) {
    const ledger = yield* OperationLedger
    if (findTooDeep(evidence) !== null) {
      return yield* new CommandFailed({ message: `--evidence: nested more than ${maxPayloadLevels} levels deep` })
    }
    const outcome = yield* toOutcome(to, failureCode, failureMessage)
    const { revision } = yield* ledger.show(id)
    yield* print(publicForm(yield* ledger.transition(id, revision, outcome, evidence)))
  })
).pipe(Command.withDescription("Record a transition of an operation, with its evidence"))

const cancel = Command.make(
  "cancel",
  {
    id: id(OperationId, "Operation"),
    reason: Flag.String("reason").pipe(
      Flag.withDescription("Reason, for the history"),
      Flag.withDefault("cancelled by an operator")
    )
  },
  Effect.fn(function*({ id, reason }) {
    const ledger = yield* OperationLedger
    yield* print(publicForm(yield* ledger.cancel(id, { by: "operator", reason })))
  })
).pipe(Command.withDescription("Cancel an operation that no worker has claimed"))

const review = Command.make(
  "review",
  {
    id: id(OperationId, "Operation"),
    clear: Flag.Boolean("clear").pipe(
      Flag.withDescription("End the review. The time until the next review starts now"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(function*({ clear, id }) {
    const ledger = yield* OperationLedger
    yield* print(publicForm(yield* ledger.review(id, !clear)))
  })
).pipe(Command.withDescription("Put an operation under review, or end the review"))

const release = Command.make(
  "release",
  {
    id: Argument.String("id").pipe(
      Argument.withSchema(OperationId),
      Argument.withDescription("Operation"),
      Argument.optional
    ),
    all: Flag.Boolean("all").pipe(
      Flag.withDescription("Release every held operation. Use it only if the failover lost no data"),
      Flag.withDefault(false)
    )
  },
  Effect.fn(function*({ all, id }) {
    const queue = yield* SubmissionQueue
    if (all === Option.isSome(id)) {
      return yield* new CommandFailed({ message: "specify exactly one of the id of an operation and --all" })
    }
    yield* print(
      Option.isSome(id) ? publicForm(yield* queue.release(id.value)) : { released: yield* queue.releaseAll }
    )
  })
).pipe(
  Command.withDescription(
    "Let workers submit an operation that is held after a failover or a restored backup. Use it only if you are sure "
      + "that the operation was never submitted"
  ),
  Command.withShortDescription("Let workers submit an operation that is held")
)

const hold = Command.make(
  "hold",
  {
    all: Flag.Boolean("all").pipe(Flag.withDescription("Hold every accepted operation"), Flag.withDefault(false))
  },
  Effect.fn(function*({ all }) {
    if (!all) {
      return yield* new CommandFailed({
        message: "specify --all: single operations cannot be held, only cancelled (see operations cancel)"
      })
    }
    const queue = yield* SubmissionQueue
    yield* print({ held: yield* queue.holdAll })
  })
).pipe(
  Command.withDescription(
    "Hold all accepted operations. Use it after a rollback that the gateway cannot detect, such as a restored disk "
      + "snapshot"
  ),
  Command.withShortDescription("Hold all accepted operations")
)

const encodeHistory = Schema.encodeSync(Schema.Array(HistoryEntry))

const show = Command.make(
  "show",
  { id: id(OperationId, "Operation") },
  Effect.fn(function*({ id }) {
    const ledger = yield* OperationLedger
    const operation = publicForm(yield* ledger.show(id))
    const return_reason = yield* ledger.returnReason(id)
    yield* print({ operation, return_reason, history: encodeHistory(yield* ledger.history(id)) })
  })
).pipe(Command.withDescription("Show an operation, why a worker returned it without sending, and its history"))

export const operations = Command.make("operations").pipe(
  Command.withDescription("Accept, advance, cancel, review, hold, release and show operations"),
  Command.withSubcommands([accept, advance, cancel, review, hold, release, show])
)
