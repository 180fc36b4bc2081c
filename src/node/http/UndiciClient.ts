/**
 * Effect's `HttpClient` over a dispatcher of undici. It asks the `SendDeadline` before the first byte leaves.
 *
 * It replaces `NodeHttpClient.makeUndici`, which makes a promise, an async resource and a Node stream for each response.
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { Dispatcher } from "@effect/platform-node/Undici"
import * as Effect from "effect/Effect"
import type * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import { Readable } from "node:stream"
import { SendDeadline } from "../../submission/http/SendDeadline.ts"
import { UndiciBody, type UndiciHead, UndiciResponse } from "./UndiciResponse.ts"

type RequestBody = Exclude<Dispatcher.DispatchOptions["body"], undefined>

/** undici accepts only form data of its own. */
const encodeForm = (form: FormData): Effect.Effect<RequestBody> =>
  Effect.promise(async () => {
    const undici = await import("@effect/platform-node/Undici")
    const own = new undici.FormData()
    for (const [name, value] of form) own.append(name, value)
    return own
  })

const encodeBody = (body: HttpBody.HttpBody): Effect.Effect<RequestBody> => {
  switch (body._tag) {
    case "Empty":
      return Effect.succeed(null)
    case "Uint8Array":
      return Effect.succeed(body.body)
    case "Raw":
      // undici refuses a value that it cannot send.
      return Effect.succeed(body.body as RequestBody)
    case "FormData":
      return encodeForm(body.formData)
    case "Stream":
      return NodeStream.toReadable(body.stream)
  }
}

/** What a request waits for: the head of its response, or the cause of its failure. */
interface Waiting {
  readonly onHead: (head: UndiciHead, body: UndiciBody) => void
  readonly onFailure: (cause: unknown) => void
}

/** One request in undici, from the queue to the last byte of the response. */
class UndiciRequest implements Dispatcher.DispatchHandler {
  private readonly deadline: SendDeadline | null
  private readonly sent: RequestBody
  private readonly signal: AbortSignal
  /** Undefined as soon as it has its result. Otherwise undici would keep a response alive that the application dropped. */
  private waiting: Waiting | undefined
  private controller: Dispatcher.DispatchController | undefined
  private received: UndiciBody | undefined
  private failure: { readonly cause: unknown } | undefined

  constructor(deadline: SendDeadline | null, sent: RequestBody, signal: AbortSignal, waiting: Waiting) {
    this.deadline = deadline
    this.sent = sent
    this.signal = signal
    this.waiting = waiting
    if (signal.aborted) this.onAbort()
    else signal.addEventListener("abort", this.onAbort)
  }

  /**
   * undici writes the head in the same turn of the event loop. If it writes a request again, it calls this again.
   */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    if (this.failure !== undefined) controller.abort(this.failure.cause as Error)
    else if (this.deadline?.pass() === false) controller.abort(new Error("the send deadline has passed"))
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: UndiciHead["headers"]
  ): void {
    // A status below 200 announces the response.
    if (status < 200) return
    this.received = new UndiciBody(controller)
    this.waiting?.onHead({ status, headers }, this.received)
    this.waiting = undefined
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.received?.add(chunk)
  }

  onResponseEnd(): void {
    this.signal.removeEventListener("abort", this.onAbort)
    this.received?.complete()
  }

  onResponseError(_: Dispatcher.DispatchController, cause: unknown): void {
    this.fail(cause)
  }

  /** Also ends a request that waits for a connection. undici keeps it in the queue, and drops it when its turn comes. */
  abort(cause: Error): void {
    this.fail(cause)
    this.controller?.abort(cause)
  }

  private readonly onAbort = (): void => this.abort(this.signal.reason as Error)

  private fail(cause: unknown): void {
    if (this.failure !== undefined) return
    this.failure = { cause }
    this.signal.removeEventListener("abort", this.onAbort)
    if (this.sent instanceof Readable) this.sent.on("error", () => {}).destroy()
    if (this.received === undefined) this.waiting?.onFailure(cause)
    else this.received.fail(cause)
    this.waiting = undefined
  }
}

/** undici keeps no deadline: the caller does. In milliseconds. */
const timeouts = { headersTimeout: 60 * 60 * 1000, bodyTimeout: 0 } as const

/**
 * A client that sends each request once, follows no redirect and does not decompress. Its failures keep the cause that undici
 * gave.
 */
export const makeUndiciClient = (dispatcher: Dispatcher): HttpClient.HttpClient =>
  HttpClient.make((request, url, signal, fiber) => {
    const { headers, method } = request
    const deadline = fiber.getRef(SendDeadline)
    return Effect.flatMap(
      encodeBody(request.body),
      (body) =>
        Effect.callback<HttpClientResponse, HttpClientError.HttpClientError>((resume) => {
          // In a microtask, as in `UndiciBody`.
          const sent = new UndiciRequest(deadline, body, signal, {
            onHead: (head, received) =>
              queueMicrotask(() => resume(Effect.succeed(new UndiciResponse(request, url, head, received)))),
            onFailure: (cause) =>
              queueMicrotask(() =>
                resume(
                  Effect.fail(
                    new HttpClientError.HttpClientError({
                      reason: new HttpClientError.TransportError({ request, cause })
                    })
                  )
                )
              )
          })
          deadline?.watch()
          dispatcher.dispatch({
            method,
            headers,
            origin: url.origin,
            path: url.pathname + url.search,
            body,
            ...timeouts
          }, sent)
          return Effect.sync(() => sent.abort(new Error("the request was interrupted")))
        })
    )
  })
