/** `operations accept`: accepts one financial request, or a file of them. */
import * as Arr from "effect/Array"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { GrantId, type GrantIdentity } from "../../domain/Grant.ts"
import { FinancialRequest, IdempotencyKey, InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import { OperationType } from "../../domain/Operation.ts"
import { failureLine } from "../../node/process/failureLine.ts"
import { Grants } from "../../services/Grants.ts"
import { type Accepted, OperationLedger } from "../../services/OperationLedger.ts"
import { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { decodeUtf8, jsonFlag, optionalText, text } from "../Flags.ts"
import { CommandFailed, print, publicForm } from "../Output.ts"

const identityOf = Effect.fn(function*(grant_id: GrantId) {
  const grants = yield* Grants
  const grant = yield* grants.show(grant_id)
  return { grant_id, client_id: grant.client_id, subject: grant.subject } satisfies GrantIdentity
})

const toResult = ({ created, operation }: Accepted) => ({ operation: publicForm(operation), created })

const decodeRequest = Schema.decodeUnknownEffect(Schema.fromJsonString(FinancialRequest), { onExcessProperty: "error" })

/** Why a request was not accepted. */
interface Refusal {
  readonly _tag: string
  readonly message: string
}

/** The message of an error, with the invalid members of the payload if the error names them. */
const messageOf = (error: Refusal): string => {
  if (error instanceof StoreUnavailable) {
    return `${failureLine(error)}; it is unknown whether the request was recorded: repeat it with the same key alone`
  }
  if (error.message === "") return error._tag
  const fields = error instanceof InvalidFinancialRequest ? error.fields ?? [] : []
  const named = fields.map(({ message, path }) => `${["payload", ...path].join(".")}: ${message}`)
  return [error.message, ...named].join("; ")
}

/** The result of a batch line that was not accepted, or whose answer got lost. The batch continues with the next line. */
const toError = (line: number, error: Refusal) => ({
  line,
  error: {
    code: error._tag.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase(),
    message: messageOf(error)
  }
})

/**
 * Most lines of one statement. A line of 100 costs the database a fifth of a single acceptance, and
 * more lines save little.
 */
const linesInBatch = 100

/** A line, and its number from 0. */
type Line = readonly [text: string, index: number]

/** The result of a line, and its index. */
interface LineResult {
  readonly index: number
  readonly result: Exit.Exit<Accepted, Refusal>
}

/** Accepts lines in one statement. An error of the grant or of the store is the result of each valid line. */
const acceptLines = Effect.fnUntraced(function*(grant: GrantIdentity, lines: ReadonlyArray<Line>) {
  const ledger = yield* OperationLedger
  const decoded = yield* Effect.forEach(lines, ([text]) => Effect.exit(decodeRequest(text)))
  const requests = decoded.flatMap((exit) => Exit.isSuccess(exit) ? [exit.value] : [])
  const accepted = yield* Effect.catch(
    ledger.acceptAll(grant, requests),
    (error) => Effect.succeed(requests.map(() => Exit.fail(error)))
  )
  const next = accepted.values()
  return lines.map(([, index], n): LineResult => {
    const exit = decoded[n]!
    return { index, result: Exit.isFailure(exit) ? Exit.failCause(exit.cause) : next.next().value! }
  })
})

/** Accepts NDJSON in batches of the lines that have arrived, and prints one result for each line, in order. */
const acceptBatch = Effect.fn(function*(grant: GrantIdentity, from: string) {
  const fs = yield* FileSystem.FileSystem
  const stdio = yield* Stdio.Stdio
  const refused = yield* Ref.make(0)
  const unknown = yield* Ref.make(0)
  const bytes = from === "-" ? stdio.stdin : fs.stream(from)
  yield* bytes.pipe(
    decodeUtf8(() =>
      new CommandFailed({ message: "the lines are not UTF-8: those without a result were not accepted" })
    ),
    Stream.splitLines,
    Stream.zipWithIndex,
    Stream.filter(([text]) => text.trim() !== ""),
    Stream.chunks,
    Stream.flatMap((lines) => Stream.fromIterable(Arr.chunksOf(lines, linesInBatch))),
    Stream.mapEffect((lines) => acceptLines(grant, lines)),
    Stream.flattenIterable,
    Stream.mapEffect(({ index, result }) =>
      Effect.catch(
        Effect.map(result, toResult),
        (error) =>
          Effect.as(
            Ref.update(error instanceof StoreUnavailable ? unknown : refused, (n) => n + 1),
            toError(index + 1, error)
          )
      )
    ),
    Stream.runForEach(print)
  )
  const [notAccepted, maybe] = [yield* Ref.get(refused), yield* Ref.get(unknown)]
  const messages = [
    ...notAccepted > 0 ? [`${notAccepted} lines were not accepted`] : [],
    ...maybe > 0
      ? [`of ${maybe} lines it is unknown whether they were recorded: repeat them with the same keys alone`]
      : []
  ]
  if (messages.length > 0) return yield* new CommandFailed({ message: messages.join("; ") })
})

export const accept = Command.make(
  "accept",
  {
    grant: text("grant", "Grant of the request", GrantId),
    type: optionalText("type", "Kind of work, such as payment", OperationType),
    key: optionalText(
      "key",
      "Idempotency key: the same key and request always return the same operation",
      IdempotencyKey
    ),
    payload: jsonFlag("payload").pipe(
      Flag.withDescription(
        "Payload for the provider, as JSON; - reads it from standard input, which keeps it out of the process list"
      ),
      Flag.optional
    ),
    from: optionalText(
      "from",
      "File with one {\"type\",\"key\",\"payload\"} a line, or - for standard input; prints one result a line",
      Schema.String
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
      ["InvalidFinancialRequest", "StoreUnavailable"],
      (error) => Effect.fail(new CommandFailed({ message: messageOf(error) }))
    )
    yield* print(toResult(accepted))
  })
).pipe(
  Command.withDescription(
    "Accept financial requests into the ledger: one operation for each idempotency key. The command does not check the payloads that adapters declare"
  )
)
