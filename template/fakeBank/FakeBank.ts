/**
 * A fake bank, for development and tests: the sandbox of the package in the dialect of this bank. It keeps its transfers in memory,
 * and fails as `PUT /faults` says:
 *
 *     curl -X PUT http://127.0.0.1:4020/faults -d '{"drop_response":{"rate":1,"on":"submission"}}'
 *
 * Nothing in `src` imports this folder: `src/Providers.ts` loads this file if it exists.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Dialect, Sandbox } from "financial-agents-gateway/sandbox/Sandbox"
import type { FakeBank } from "../src/Providers.ts"
import { Transfer } from "../src/Transfer.ts"

const json = (status: number, body: object) => ({
  status,
  contentType: "application/json",
  text: JSON.stringify(body)
})

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(Transfer))

/** The paths of the bank, its limit, and its answers. */
const dialect = (apiKey: string): Dialect => ({
  demandOf: ({ headers, method, path }) => {
    const [, collection, key = String(headers["idempotency-key"])] = path.split("/")
    if (collection !== "transfers") return null
    if (headers["authorization"] !== `Bearer ${apiKey}`) {
      return { _tag: "Answered", answer: json(401, { code: "unauthorized" }) }
    }
    return { _tag: method === "POST" ? "Submit" : "ReadByKey", key }
  },
  submissionOf: ({ headers }, body) =>
    Result.mapBoth(decode(body), {
      onFailure: String,
      onSuccess: ({ amount }) => ({
        type: "transfer",
        instruction: Number(amount) > 10_000
          ? { outcome: "rejected", code: "limit_exceeded", message: "The limit of a transfer is 10000." }
          : { outcome: "succeeded" },
        sendBefore: Date.parse(String(headers["send-before"])) || Infinity
      })
    }),
  write: (saying) => {
    switch (saying._tag) {
      case "Taken":
      case "Status": {
        const { idempotency_key: key, reference: id, status } = saying.known.status
        if (status === "failed") return json(404, { key, code: "not_found" })
        return json(saying._tag === "Taken" && saying.isFirst ? 201 : 200, { id, key, status: "booked" })
      }
      case "Refused":
        return json(422, { key: saying.key, ...saying.failure })
      case "TooLate":
        return json(409, { key: saying.key, code: "too_late", message: "The request arrived after Send-Before." })
      case "NotFound":
        return json(404, { key: "key" in saying.demand ? saying.demand.key : null, code: "not_found" })
      case "Unauthorized":
        return json(401, { code: "unauthorized" })
      default:
        return json(400, { code: "invalid" })
    }
  }
})

/** Starts a bank, which ends with the scope. Port 0 chooses a free port. */
export const startFakeBank = ({ apiKey, port }: { readonly port: number; readonly apiKey: string }) =>
  Layer.build(Layer.fresh(Sandbox.layer({ port }, dialect(apiKey)))).pipe(
    Effect.map((context) => Context.get(context, Sandbox)),
    Effect.orDie
  )

/** How many transfers the bank has booked. */
export const bookings = ({ record }: Sandbox["Service"]) =>
  Effect.map(record, (receipts) => receipts.filter(({ outcome }) => outcome === "accepted").length)

const port = Number(process.env["FAKE_BANK_PORT"] ?? 4020)
const apiKey = "fake-key"

/** The bank of `npm start`: where it listens, the key that it expects, and what `npm start` prints of it. */
export const fakeBank: FakeBank = {
  url: `http://127.0.0.1:${port}`,
  apiKey,
  start: startFakeBank({ apiKey, port }),
  text: `
Make the bank lose its answers, transfer with another key, and read again:

  curl -X PUT http://127.0.0.1:${port}/faults -d '{"drop_response":{"rate":1,"on":"submission"}}'
`
}
