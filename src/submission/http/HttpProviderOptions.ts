/** The options of an adapter for an HTTP provider that takes JSON or forms, and answers with JSON. */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { DeclaredFailures } from "../../domain/GatewayFailures.ts"
import type { PayloadSchemas } from "../../domain/PayloadSchemas.ts"
import type { ProviderLimit } from "../../domain/ProviderLimit.ts"
import type { ProviderOperation, ProviderReference } from "../../domain/Submission.ts"
import type {
  NotSent,
  ProviderPromises,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../providers/ProviderAdapter.ts"
import type { Decode, HttpAnswer, KeyHolder, ReadOn } from "./HttpDecoding.ts"
import type { HttpCancellation, HttpCredentials, HttpHeaders, HttpStatusRead, HttpSubmission } from "./HttpRequest.ts"

/** The payloads of an adapter that declares none: any JSON, of any type of operation. */
export type AnyPayloads = Readonly<Record<string, Schema.ConstraintDecoder<Schema.Json>>>

/** The arguments of `submit.request`. The type selects the payload: in `switch (type)`, the payload has its type. */
export type SubmissionArguments<P extends PayloadSchemas> = {
  readonly [T in keyof P & string]: [operation: ProviderOperation, payload: P[T]["Type"], type: T]
}[keyof P & string]

/** The status read that an answer belongs to. Copy the names from the answer, never from here. */
export interface StatusRead<Payload> {
  /** Its `id` is the key of the submission. */
  readonly operation: ProviderOperation
  /** The provider's reference, if it is known. */
  readonly reference: ProviderReference | null
  /** Null, unless the read is indirect or `needsPayload` is set. */
  readonly payload: Payload | null
}

/** Options of an adapter. Declare `payloads`, and `submit.request` receives decoded payloads. */
export interface HttpProviderOptions<P extends PayloadSchemas = AnyPayloads> {
  /** URL of the provider, such as `https://api.bank.example/v2`. Without user, query or fragment. */
  readonly baseUrl: string | URL
  /**
   * Schemas of the payloads that the provider can carry out, by type of operation: `{ payment: Payment }`. The adapter
   * decodes each payload before it builds the request. A payload that does not fit is not sent, and the failure is local:
   * the schema changed after the acceptance. Default: any JSON, of any type.
   *
   * Provide `Providers.payloads` or `ProviderPayloads` to the ledger, too. It then refuses such a payload at the
   * acceptance.
   */
  readonly payloads?: P
  /**
   * Finds the headers that authenticate a request to the provider, by the operation's resource owner and provider
   * connection. `payload` is that of a submission or a fence, for credentials of one payment. In a status read it is null. If the
   * function fails, a submission is `NotSent` with `isLocal`, and the log names the error and its cause without their
   * messages. It has the deadline for headers.
   */
  readonly credentials?: (
    operation: ProviderOperation,
    payload: P[keyof P & string]["Type"] | null
  ) => Effect.Effect<HttpCredentials, unknown>
  /**
   * Whose credentials a submission takes. `operation`: those of its owner or of its payment, so that missing or refused ones
   * (`wrongCredentials`) are `isOfOperation` (see `NotSent`). Default: `gateway`.
   */
  readonly credentialsOf?: "gateway" | "operation"
  /**
   * Whether the operation's resource owner or provider connection may order this, such as from the account that the payload names. All text of
   * the payload is that of the client. Asked before a submission and before a fence. `false`: nothing is sent, and the operation is `failed`
   * with `not_permitted`. If the function fails, or not within the deadline for headers, the operation waits. Default: all is permitted.
   */
  readonly isPermitted?: (
    operation: ProviderOperation,
    payload: P[keyof P & string]["Type"]
  ) => Effect.Effect<boolean, unknown>
  readonly submit: {
    /**
     * Builds the request. `payload` is decoded by the schema of `type`, which is the operation's type. If it throws, the
     * submission is `NotSent` with `isLocal`: the operation waits for a repaired adapter. The name of the error and its
     * position are logged.
     */
    readonly request: (...submission: SubmissionArguments<P>) => HttpSubmission
    /** Makes headers of the body as it leaves, byte for byte, such as a signature. A failure counts like one of `request`. */
    readonly sign?: (body: Uint8Array) => Effect.Effect<HttpHeaders, unknown>
    /**
     * Decodes an answer. An undeclared status is uncertain; 4xx, 429 and 503 are too.
     *
     * - Declare as `Rejected` the answers that the provider documents as final refusals, with a code of `failures`.
     * - Declare 401 and 403 as `wrongCredentials` if the provider documents that it then did nothing. The operation waits
     *   until an operator has repaired the credentials.
     * - Declare 429 and 503 as `refusedForNow` if the provider documents that it then did nothing. The operation is sent
     *   again until `sendWithin`.
     * - Fail with `NotSent` for other answers of this kind. The request has left, so the adapter adds `isRefused`.
     * - Fail with `NotUnderstood` if the answer is about something else than `submission`, such as another account.
     */
    readonly decode: (
      answer: HttpAnswer,
      submission: { readonly operation: ProviderOperation; readonly payload: P[keyof P & string]["Type"] }
    ) => ReturnType<Decode<SubmissionAnswer, NotSent | Uncertain>>
  }
  readonly status: {
    /**
     * Builds the request, by `reference` or by `operation.id`. `reference` is the provider's own: null until an answer has named it. Under
     * `readByOperationId: "no"` it is never null. Under `yes` and `{ lag }` the request without it must contain the operation's id, with
     * or without hyphens. Otherwise nothing is sent, and the read proves nothing.
     *
     * `payload` is that of the operation in an indirect read, or with `needsPayload`. Else it is null.
     */
    readonly request: (
      operation: ProviderOperation,
      reference: ProviderReference | null,
      payload: P[keyof P & string]["Type"] | null
    ) => HttpStatusRead
    /**
     * Decodes an answer. An undeclared 404 counts as not found and is never final, because any proxy on the way may send
     * it. Query by the operation's id or by its reference, and set `names` to the id and reference that the body names.
     *
     * Declare 401 and 403 as `wrongCredentials`, too. A read that fails with `NotSent` is `NotProven` with `unclear`, and its
     * reason is logged. Return `ReadOn` if another resource has the state, or another page of a list.
     *
     * In a list that has no filter by the key, find the entry with the id of `read.operation`.
     */
    readonly decode: (
      answer: HttpAnswer,
      read: StatusRead<P[keyof P & string]["Type"]>
    ) => ReturnType<Decode<StatusAnswer | ReadOn, NotSent>>
    /** Whether every read gets the payload, such as to compare an amount. Default: only an indirect read gets it. */
    readonly needsPayload?: boolean
    /**
     * Whether the request asks for a list that has no filter by the key, in which `decode` finds the entry with the operation's id. Then the
     * request need not contain the id. Default: false.
     */
    readonly isUnfiltered?: boolean
  }
  /** Occupies the key of an operation whose request was lost. See `ProviderAdapter`. Default: no fence. */
  readonly fence?: {
    /** The order that cannot pay, with the operation's key. Null: there is none for this payload. Credentials and signature are those of `submit`. */
    readonly request: (...submission: SubmissionArguments<P>) => HttpSubmission | null
    /**
     * Decodes the answer to this order, and to a status read by the key. `HttpProvider` cancels an `Own` order that waits, and reads its
     * state afterwards. An undeclared answer leaves the fence uncertain: it is sent again.
     */
    readonly decode: Decode<KeyHolder, NotSent>
    /** Cancels the order of the fence. Its answer is not decoded: the status read afterwards counts. */
    readonly cancel: (reference: ProviderReference, operation: ProviderOperation) => HttpCancellation
    /**
     * Asks first, by GET, whether the credentials reach the account of the settings. The order is sent only after a 200 whose body has this
     * member with this value. Default: the order itself names its account.
     */
    readonly checkAccount?: { readonly path: string; readonly member: string; readonly value: string }
  } | undefined
  /** Header of submissions and fences that contains the operation's id. Default: `Idempotency-Key`. */
  readonly idempotencyKeyHeader?: string
  /**
   * Where else the bank looks for the key, such as the name of a member of the body. Change it also if the path of a request moves. With the base
   * URL it is `keyIn` of the adapter, 300 characters at most. Default: the header.
   */
  readonly keyIn?: string
  /**
   * Default: 20 seconds from the start of a request to the head of the response, and 10 seconds from there to its end. The
   * client sets its own limit for connecting.
   */
  readonly deadlines?: { readonly headers?: Duration.Input; readonly body?: Duration.Input }
  /** Most bytes of a response body; a larger one is no answer. Default: 1 MiB. */
  readonly maxBodySize?: number
  /** The failures that clients may read, by code. See `ProviderAdapter`. Default: the common ones alone. */
  readonly failures?: DeclaredFailures
  /** The environment and account that the settings reach. See `ProviderAdapter`. Default: they always reach the same one. */
  readonly account?: string
  /** How many requests the provider takes. See `ProviderAdapter`. Default: no limit. */
  readonly limit?: ProviderLimit
  /**
   * Whether a worker reads, at its start, the status of an operation that does not exist: after an undeclared 404 it sends
   * no operation, and repeats the read, until one passes. `false` for a provider that must not get such a read, or whose 404 cannot be declared. Without a
   * promised read by the operation's id there is no probe. Default: true.
   */
  readonly probe?: boolean
  /** What the provider documents. See `ProviderPromises`. */
  readonly promises: ProviderPromises
}
