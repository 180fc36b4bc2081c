/** A witness in etcd 3.4 or later, by its JSON gateway. Each step is one transaction, or one linearizable range. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import type * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { ClaimBatch } from "../../domain/Submission.ts"
import { exchangeJson, type ServerFailure } from "../../http/JsonExchange.ts"
import { type WitnessStore, WitnessUnavailable } from "./Witness.ts"

/** The most bytes of an answer. */
const size = 16 * 1024 * 1024

export interface EtcdWitnessOptions {
  /** Without a path: `https://host:2379`. */
  readonly endpoints: readonly [string, ...ReadonlyArray<string>]
  /** The first part of all keys, which no other ledger may use. */
  readonly prefix: string
  readonly user: { readonly name: string; readonly password: Redacted.Redacted<string> } | null
  /** How long one endpoint may take to answer, before the next one is asked. A second by default. */
  readonly timeout?: Duration.Input
}

interface KeyValue {
  readonly key: string
  readonly value?: string
}

interface RangeAnswer {
  readonly kvs?: ReadonlyArray<KeyValue>
}

interface TransactionAnswer {
  /** The gateway leaves false out. */
  readonly succeeded?: boolean
  readonly responses?: ReadonlyArray<{
    readonly response_range?: RangeAnswer
    readonly response_txn?: TransactionAnswer
  }>
}

const encode = (text: string) => Base64.encode(text)
const decode = (text: string) => Result.getOrElse(Base64.decodeString(text), () => "")

/** etcd compares values as text: so every number has the same length. */
const toValue = (batch: number) => String(batch).padStart(16, "0")

/** The end of the range of all keys that begin with this text, which ends in a slash. */
const endOf = (prefix: string) => `${prefix.slice(0, -1)}0`

/** Makes the witness. It connects with the first step. */
export const makeEtcdWitness = (
  client: HttpClient.HttpClient,
  { endpoints, prefix, timeout = "1 second", user }: EtcdWitnessOptions
): WitnessStore => {
  const epochKey = `${prefix}/epoch`
  const batchesPrefix = `${prefix}/batches/`
  const epochPrefix = (epoch: string) => `${batchesPrefix}${epoch}/`
  const keyOf = ({ epoch, life, provider, worker }: ClaimBatch) =>
    `${epochPrefix(epoch)}${worker}/${encodeURIComponent(life)}/${encodeURIComponent(provider)}`

  /** The endpoint that answered last. */
  let current = 0
  let token: string | null = null

  const post = (endpoint: string, path: string, body: unknown) =>
    exchangeJson(
      client,
      HttpClientRequest.post(`${endpoint}${path}`).pipe(
        HttpClientRequest.bodyJsonUnsafe(body),
        token === null ? (request) => request : HttpClientRequest.setHeader("authorization", token)
      ),
      { timeout, size }
    )

  const signIn = Effect.fnUntraced(function*(endpoint: string) {
    if (user === null || token !== null) return
    const answer = yield* post(endpoint, "/v3/auth/authenticate", {
      name: user.name,
      password: Redacted.value(user.password)
    })
    token = typeof answer["token"] === "string" ? answer["token"] : null
  })

  const askOnce = Effect.fnUntraced(function*(endpoint: string, path: string, body: unknown) {
    yield* signIn(endpoint)
    return yield* Effect.tapError(post(endpoint, path, body), ({ status }) =>
      // The token has expired, or etcd has restarted.
      Effect.sync(() => {
        if (status === 401 || status === 400) token = null
      }))
  })

  /** Asks one endpoint after the other. `attempt` counts from 0; from 1 on, an earlier request may have taken effect. */
  const ask = Effect.fnUntraced(function*(path: string, body: unknown) {
    let failure: ServerFailure | null = null
    // One more, for a token that has expired.
    for (let attempt = 0; attempt < endpoints.length + (user === null ? 0 : 1); attempt++) {
      const answer = yield* Effect.result(askOnce(endpoints[current]!, path, body))
      // The cast: the gateway answers as its interface says, or the members are missing.
      if (answer._tag === "Success") return { answer: answer.success as RangeAnswer & TransactionAnswer, attempt }
      failure ??= answer.failure
      const hadExpired = user !== null && token === null && answer.failure.status !== null
      if (!hadExpired) current = (current + 1) % endpoints.length
    }
    return yield* new WitnessUnavailable({ reason: `etcd: ${failure!.reason}` })
  })

  const is = (key: string, value: string | null) =>
    value === null
      ? { key: encode(key), target: "VERSION", result: "EQUAL", version: "0" }
      : { key: encode(key), target: "VALUE", result: "EQUAL", value: encode(value) }
  const put = (key: string, value: string) => ({ request_put: { key: encode(key), value: encode(value) } })
  const get = (key: string) => ({ request_range: { key: encode(key) } })
  const remove = (from: string, to: string) => ({
    request_delete_range: { key: encode(from), range_end: encode(to) }
  })

  /** The value of the range that a failed transaction answers with. */
  const valueIn = ({ responses }: TransactionAnswer): string | null => {
    const value = responses?.[0]?.response_range?.kvs?.[0]?.value
    return value === undefined ? null : decode(value)
  }

  const epoch = Effect.map(ask("/v3/kv/range", { key: encode(epochKey) }), ({ answer }) => {
    const value = answer.kvs?.[0]?.value
    return value === undefined ? null : decode(value)
  })

  const fence = (from: string | null, to: string) =>
    Effect.map(
      ask("/v3/kv/txn", {
        compare: [is(epochKey, from)],
        success: [put(epochKey, to)],
        failure: [get(epochKey)]
      }),
      ({ answer, attempt }) => answer.succeeded === true || (attempt > 0 && valueIn(answer) === to)
    )

  const record = (batch: ClaimBatch) => {
    const key = keyOf(batch)
    const value = toValue(batch.batch)
    const write = [put(key, value)]
    // etcd finds no missing value lower than another one. So a missing key has a condition of its own.
    const ifLower = {
      request_txn: {
        compare: [{ key: encode(key), target: "VALUE", result: "LESS", value: encode(value) }],
        success: write,
        failure: [get(key)]
      }
    }
    const ifMissing = { request_txn: { compare: [is(key, null)], success: write, failure: [ifLower] } }
    return Effect.map(
      ask("/v3/kv/txn", { compare: [is(epochKey, batch.epoch)], success: [ifMissing], failure: [] }),
      ({ answer, attempt }) => {
        if (answer.succeeded !== true) return false
        const missing = answer.responses![0]!.response_txn!
        if (missing.succeeded === true) return true
        const lower = missing.responses![0]!.response_txn!
        // An earlier request of this call took effect, and its answer was lost.
        return lower.succeeded === true || (attempt > 0 && valueIn(lower) === value)
      }
    )
  }

  const toBatch = ({ key, value }: KeyValue): ClaimBatch => {
    const [epoch = "", worker = "", life = "", provider = ""] = decode(key).slice(batchesPrefix.length).split("/")
    return {
      epoch,
      worker,
      life: decodeURIComponent(life),
      provider: decodeURIComponent(provider),
      batch: Number(decode(value ?? ""))
    }
  }

  const batches = (epoch: string) =>
    Effect.map(
      ask("/v3/kv/txn", {
        compare: [is(epochKey, epoch)],
        success: [{ request_range: { key: encode(batchesPrefix), range_end: encode(endOf(batchesPrefix)) } }],
        failure: []
      }),
      ({ answer }) => answer.succeeded === true ? (answer.responses?.[0]?.response_range?.kvs ?? []).map(toBatch) : null
    )

  const compact = (checkpoint: ClaimBatch) => {
    const own = epochPrefix(checkpoint.epoch)
    return Effect.map(
      ask("/v3/kv/txn", {
        compare: [is(epochKey, checkpoint.epoch)],
        success: [
          put(keyOf(checkpoint), toValue(checkpoint.batch)),
          remove(batchesPrefix, own),
          remove(endOf(own), endOf(batchesPrefix))
        ],
        failure: []
      }),
      ({ answer }) => answer.succeeded === true
    )
  }

  return { epoch, fence, record, batches, compact }
}
