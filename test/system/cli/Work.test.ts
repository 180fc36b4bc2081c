/**
 * The command `work` submits accepted operations once, drains, and reads encrypted payloads. The tests run real
 * processes against a sandbox and the real PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, type Schema } from "effect"
import { ProviderName } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationId, type OperationState } from "../../../src/domain/Operation.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { launch, result, run, urlOf } from "../../fixtures/processes/CommandLine.ts"

interface Shown {
  readonly operation: { readonly id: string; readonly state: string; readonly under_review: boolean }
  readonly history: ReadonlyArray<{ readonly to: string }>
}

/** A database with a grant, and a sandbox. */
const scene = Effect.gen(function*() {
  const database = yield* createDatabase()
  const env = { DATABASE_URL: urlOf(database) }
  // A process for each grant, request and question would take longer than the work.
  const context = yield* Layer.build(PostgresServices.pipe(Layer.provide(Layer.fresh(layerFor(database)))))
  const ledger = Context.get(context, OperationLedger)
  const { record, url } = Context.get(yield* Layer.build(Sandbox.layer()), Sandbox)
  /** Keys of the submissions that the sandbox received, one entry for each time. */
  const received = Effect.map(record, (receipts) => receipts.map(({ key }): string => key))
  const { identity } = yield* Effect.provideContext(issue({ provider: ProviderName.make("demo-bank") }), context)
  const accept = (key: string, payload: Schema.Json) =>
    Effect.map(
      ledger.accept(identity, { type: "payment", key: IdempotencyKey.make(key), payload }),
      ({ operation }) => operation
    )
  const show = (id: string) =>
    Effect.all({ operation: ledger.show(OperationId.make(id)), history: ledger.history(OperationId.make(id)) })
  /** Waits until the operation has been in that state, and shows it. */
  const until = (id: string, state: OperationState) =>
    Effect.repeat(Effect.delay(show(id), "20 millis"), {
      until: ({ history }) => history.some(({ to }) => to === state)
    })
  return { accept, env, grant_id: identity.grant_id, received, show, until, url }
})

const key = (byte: number) => Buffer.alloc(32, byte).toString("base64")

const misconfigured = "./test/fixtures/banks/misconfigured.ts"

const alpaca = (host: string, key: string) => ({
  APCA_API_BASE_URL: `https://${host}.alpaca.markets`,
  APCA_API_KEY_ID: key,
  APCA_API_SECRET_KEY: "secret"
})

const worker = (url: string, env: Readonly<Record<string, string>>, ...flags: ReadonlyArray<string>) =>
  launch(["work", "--sandbox", `demo-bank=${url}`, ...flags], env, ({ stderr }) => stderr.includes("\"Working\""))

describe("work", () => {
  it.live("records a submission that does not finish in time as indeterminate, and exits with 0", () =>
    Effect.scoped(Effect.gen(function*() {
      const { accept, env, show, until, url } = yield* scene
      const { stop } = yield* worker(url, env, "--drain-timeout", "1s")
      const { id } = yield* accept("k", { sandbox: { outcome: "succeeded", faults: { late: { ms: 60_000 } } } })
      yield* until(id, "submitting")
      assert.strictEqual(yield* stop("SIGTERM"), 0)
      assert.strictEqual((yield* show(id)).operation.state, "indeterminate")
    })).pipe(Effect.provide(Platform)))

  it.live("moves the claims of a crash to indeterminate as soon as a worker with the same id starts", () =>
    Effect.scoped(Effect.gen(function*() {
      const { accept, env, received, until, url } = yield* scene
      const first = yield* worker(url, { ...env, WORKER_ID: "worker-1" })
      const { id } = yield* accept("k", { sandbox: { outcome: "succeeded", faults: { slow: { ms: 4000 } } } })
      yield* until(id, "submitting")
      yield* first.stop("SIGKILL")
      const { output } = yield* worker(url, env, "--worker-id", "worker-1")
      yield* until(id, "indeterminate")
      assert.include(output.stderr, "Rescued the claims of this worker's last run")
      // The crash may have come before the request, or after it.
      assert.isAtMost((yield* received).filter((key) => key === id).length, 1)
    })).pipe(Effect.provide(Platform)))

  it.live("submits each operation once, encrypted ones only with their key, and on SIGTERM finishes the running one", () =>
    Effect.scoped(Effect.gen(function*() {
      const { accept, env, grant_id, received, show, until, url } = yield* scene
      const withOld = { ...env, PAYLOAD_KEYS: `old:${key(1)}` }
      const withBoth = { ...env, PAYLOAD_KEYS: `new:${key(2)},old:${key(1)}` }
      const payload = { sandbox: { outcome: "succeeded" } }
      const request = ["--grant", grant_id, "--type", "payment", "--payload", JSON.stringify(payload)]
      const sealed = (key: string, keys: typeof withOld) =>
        Effect.map(
          result<Shown>(["operations", "accept", ...request, "--key", key], keys),
          ({ operation }) => OperationId.make(operation.id)
        )
      const old = yield* sealed("old", withOld)
      const young = yield* sealed("young", withBoth)
      const { id: plain } = yield* accept("plain", { sandbox: { outcome: "succeeded", settle_after_ms: 100 } })
      const { id: slow } = yield* accept("slow", { sandbox: { outcome: "succeeded", faults: { slow: { ms: 4000 } } } })
      const keyless = yield* worker(url, env)
      const { history } = yield* until(plain, "succeeded")
      assert.deepStrictEqual(history.map(({ to }) => to), ["accepted", "submitting", "submitted", "succeeded"])
      assert.strictEqual((yield* until(old, "accepted")).operation.state, "accepted")
      // SIGTERM lets a running submission finish, and ends all claims.
      assert.strictEqual(yield* keyless.stop("SIGTERM"), 0)
      assert.strictEqual((yield* show(slow)).operation.state, "succeeded")
      const { id: late } = yield* accept("late", { sandbox: { outcome: "succeeded" } })
      assert.strictEqual((yield* show(late)).operation.state, "accepted")
      // Makes the two operations due at once, so that the test need not wait for their next attempt.
      assert.deepStrictEqual(yield* result(["operations", "hold", "--all", "--reason", "a test"], env), {
        held: 3,
        indeterminate: 0
      })
      assert.deepStrictEqual(yield* result(["operations", "release", "--all", "--reason", "a test"], env), {
        released: 3,
        held_by_operators: 0
      })
      yield* worker(url, withBoth)
      yield* until(old, "succeeded")
      yield* until(young, "succeeded")
      assert.deepStrictEqual((yield* received).toSorted(), [old, young, plain, slow].toSorted())
    })).pipe(Effect.provide(Platform)))

  it.live("reports invalid flags and environments in one line", () =>
    Effect.gen(function*() {
      const { env } = yield* scene
      const refusals: Array<
        readonly [args: ReadonlyArray<string>, extra: Record<string, string>, line: RegExp]
      > = [
        [[], {}, /--providers and --sandbox/],
        [["--sandbox", "demo-bank"], {}, /NAME=URL/],
        [["--sandbox", "b=http://["], {}, /NAME=URL/],
        [["--sandbox", "b=http://bank.example"], {}, /b=http:\/\/bank\.example: with DATABASE_URL, .* loopback/],
        [["--sandbox", "b=http://127.0.0.1:1", "--sandbox", "b=http://127.0.0.1:2"], {}, /b is given twice/],
        [["--providers", "./nowhere.js"], {}, /--providers: .*nowhere/],
        [["--providers", "./package.json"], {}, /--providers: /],
        [["--sandbox", "b=http://127.0.0.1:1", "--rescue-after", "10s"], {}, /rescueAfter must be longer/],
        [["--sandbox", "b=http://127.0.0.1:1", "--concurrency", "0"], {}, /greater than 0/],
        [["--sandbox", "b=http://127.0.0.1:1"], { WORKER_ID: "a\nb" }, /workerId must have 1 to 255/],
        [["--sandbox", "b=http://127.0.0.1:1"], { PAYLOAD_KEYS: "k:c2hvcnQ=" }, /PAYLOAD_KEYS must be/],
        [["--sandbox", "b=http://127.0.0.1:1"], { PAYLOAD_KEYS: `k:${key(1)}:more` }, /PAYLOAD_KEYS must be/]
      ]
      const banks: ReadonlyArray<readonly [settings: Record<string, string>, line: RegExp]> = [
        [{ CASE: "increase", INCREASE_URL: "https://api.increase.com" }, /INCREASE_API_KEY/],
        [
          { CASE: "increase", INCREASE_URL: "http://api.increase.com", INCREASE_API_KEY: "k" },
          /INCREASE_URL\) must begin/
        ],
        [{ CASE: "alpaca", ...alpaca("api", "PKEY") }, /APCA_API_BASE_URL is api\.alpaca\.markets/],
        [{ CASE: "alpaca", ...alpaca("paper-api", "AKEY") }, /APCA_API_KEY_ID does not begin with PK/],
        [{ CASE: "no-tls" }, /tls must have the certificate/],
        [{ CASE: "no-certificate" }, /tls\.cert must be a certificate in PEM/],
        [{ CASE: "elliptic-key" }, /signing\.key must be an RSA key/]
      ]
      for (const [settings, line] of banks) refusals.push([["--providers", misconfigured], settings, line])
      for (const [args, extra, line] of refusals) {
        const { code, stderr, stdout } = yield* run(["work", ...args], { ...env, ...extra })
        assert.strictEqual(code, 1, args.join(" "))
        assert.strictEqual(stdout, "")
        assert.match(stderr, /^error: .*\n$/, stderr)
        assert.match(stderr, line)
        assert.notInclude(stderr, "c2hvcnQ=")
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("operations", () => {
  it.live("that are held can be neither cancelled nor released while another worker may still send them", () =>
    Effect.scoped(Effect.gen(function*() {
      const { accept, env } = yield* scene
      const { id } = yield* accept("k", {})
      yield* result(["operations", "hold", "--all", "--reason", "a test"], env)
      for (
        const [command, refusal] of [["cancel", /is held, and nothing proves that it was never sent/], [
          "release",
          /no worker has examined/
        ]] as const
      ) {
        const { code, stderr } = yield* run(["operations", command, id], env)
        assert.strictEqual(code, 1)
        assert.match(stderr, refusal)
      }
      assert.deepStrictEqual(yield* result(["operations", "release", "--all", "--reason", "a test"], env), {
        released: 1,
        held_by_operators: 0
      })
      const free = yield* result<Shown["operation"]>(["operations", "release", id], env)
      assert.strictEqual(free.state, "accepted", "an operation that is not held does not change")
    })).pipe(Effect.provide(Platform)))
})
