/** Responses of server-sent events (WHATWG HTML, "Server-sent events"). */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"

const encoder = new TextEncoder()

/** A comment, which clients ignore. Proxies would cut an idle connection. */
const keepAlive = encoder.encode(": keep-alive\n\n")

const keepAliveEvery = "15 seconds"

const headers = {
  "content-type": "text/event-stream",
  // Events hold operations of a user, as all other responses do.
  "cache-control": "no-store, no-transform",
  // nginx would hold events back.
  "x-accel-buffering": "no",
  // The shutdown waits for connections that clients keep. It cannot announce that in a response which has begun.
  connection: "close"
}

/** A response with one event for each value, as JSON. It ends with the stream. `type` is that of the events. */
export const eventStream = <A>(values: Stream.Stream<A>, type?: string): HttpServerResponse.HttpServerResponse => {
  const field = type === undefined ? "" : `event: ${type}\n`
  const events = Stream.map(values, (value) => encoder.encode(`${field}data: ${JSON.stringify(value)}\n\n`))
  const comments = Stream.map(Stream.drop(Stream.tick(keepAliveEvery), 1), () => keepAlive)
  return HttpServerResponse.stream(Stream.merge(events, comments, { haltStrategy: "left" }), { headers })
}
