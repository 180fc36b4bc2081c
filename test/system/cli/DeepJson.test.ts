/**
 * JSON that is nested too deep is refused at every input, and a payload that cannot be encoded occupies no worker. The
 * tests send up to a million levels through ledger, endpoint and command line.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Logger, Redacted, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Gate } from "../../../src/api/Middleware.ts"
import {
  acceptanceErrors,
  AcceptedOperation,
  mutationHeaders,
  MutationRequest
} from "../../../src/api/MutationRequest.ts"
import { operationsRead, Scope } from "../../../src/domain/Grant.ts"
import { findTooDeep, maxPayloadLevels } from "../../../src/domain/Idempotency.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { GateLayer } from "../../../src/server/gate/Gate.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { Problems } from "../../../src/server/gate/ProblemResponses.ts"
import { MutationEndpoints, MutationRequestLayer } from "../../../src/server/mutations/MutationEndpoints.ts"
import { SubmissionWorker } from "../../../src/submission/attempts/SubmissionWorker.ts"
import * as HttpProvider from "../../../src/submission/http/HttpProvider.ts"
import type { HttpAdapterOptions } from "../../../src/submission/http/HttpProviderOptions.ts"
import { NotSent } from "../../../src/submission/providers/ProviderAdapter.ts"
import { result, run, urlOf } from "../../fixtures/CommandLine.ts"
import { baseUrl } from "../../fixtures/HttpProblem.ts"
import { accept, conformance, InMemoryLedger, issue, newKey } from "../../fixtures/Ledger.ts"
import {
  answering,
  operationOf,
  optionsFor,
  rawServer,
  response,
  succeeded
} from "../../fixtures/submission/HttpProviderServer.ts"
import { acknowledged, makeWorld, until } from "../../fixtures/submission/World.ts"
import { createDatabase, Platform } from "../../fixtures/TestDatabase.ts"

const arrays = (levels: number): string => "[".repeat(levels) + "]".repeat(levels)
const objects = (levels: number): string => "{\"a\":".repeat(levels) + "1" + "}".repeat(levels)
const parse = (text: string) => JSON.parse(text) as Schema.Json

const deepest = maxPayloadLevels

describe("A member that is nested too deep", () => {
  it("is found from the 65th level on, and named by its path", () => {
    assert.strictEqual(deepest, 64)
    assert.isNull(findTooDeep(parse(arrays(64))))
    assert.deepStrictEqual(findTooDeep(parse(arrays(65))), Array.from({ length: 64 }, () => "0"))
    assert.isNull(findTooDeep(parse(objects(64))))
    assert.deepStrictEqual(findTooDeep(parse(objects(65))), Array.from({ length: 64 }, () => "a"))
    const within = `{"shallow":[1,[2]],"list":[{},${arrays(62)},[${arrays(62)}]],"deep":${arrays(64)}}`
    assert.deepStrictEqual(findTooDeep(parse(within))?.slice(0, 4), ["list", "2", "0", "0"])
  })

  it("is found for any number of levels, and never in a wide value", () => {
    for (const levels of [5000, 100_000, 1_000_000]) {
      for (const text of [arrays(levels), objects(levels)]) assert.lengthOf(findTooDeep(parse(text))!, 64)
    }
    assert.isNull(findTooDeep(Array.from({ length: 100_000 }, () => [{}, []])))
    for (const scalar of [null, 1, "text", true]) assert.isNull(findTooDeep(scalar))
  })

  it("is found exactly where a recursive check finds it", () => {
    const levelsOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(levelsOf)) : 0
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 56, max: 66 }), (value, above) => {
      const nested = Array.from({ length: above }).reduce((inner) => ({ a: inner }), value)
      const path = findTooDeep(nested)
      assert.strictEqual(path !== null, levelsOf(nested) > deepest)
      if (path !== null) {
        const member = path.reduce<unknown>((container, key) => (container as Record<string, unknown>)[key], nested)
        assert.isTrue(typeof member === "object" && member !== null)
        assert.lengthOf(path, deepest)
      }
    }))
  })
})

conformance("a payload", (it) => {
  it.effect("of 64 levels is accepted, and a deeper one is refused with the path of the member", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      assert.isTrue((yield* accept(identity, { payload: parse(objects(64)) })).created)
      for (const levels of [65, 5000, 100_000]) {
        const key = newKey()
        const error = yield* Effect.flip(accept(identity, { key, payload: parse(objects(levels)) }))
        assert.strictEqual(error._tag, "InvalidFinancialRequest")
        assert.deepInclude({ ...error }, {
          fields: [{
            path: Array.from({ length: 64 }, () => "a"),
            message: "Expected at most 64 levels of arrays and objects"
          }]
        })
        assert.strictEqual(error.message, "the payload is nested more than 64 levels deep")
        assert.isTrue((yield* accept(identity, { key })).created, "the key is not bound")
      }
    }))
})

interface Tree {
  readonly branches: ReadonlyArray<Tree>
}
const Tree = Schema.Struct({ branches: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree)) })

const write = Scope.make("work:write")

const common = { headers: mutationHeaders, success: AcceptedOperation, error: acceptanceErrors }

class WorkApi extends HttpApi.make("work").add(
  HttpApiGroup.make("work")
    .add(
      HttpApiEndpoint.post("any", "/v1/any", { ...common, payload: Schema.Struct({ work: Schema.Json }) }),
      HttpApiEndpoint.post("tree", "/v1/tree", { ...common, payload: Tree })
    )
    .middleware(MutationRequest)
    .middleware(Gate)
) {}

const Work = HttpApiBuilder.group(
  WorkApi,
  "work",
  Effect.fn(function*(handlers) {
    const mutations = yield* MutationEndpoints
    const take = ({ payload }: { readonly payload: { readonly work: Schema.Json } | Tree }) =>
      mutations.accept({ type: "work", scope: write, payload: payload as Schema.Json })
    return handlers.handle("any", take).handle("tree", take)
  })
)

interface Problem {
  readonly code: string
  readonly fields: ReadonlyArray<{ readonly path: string; readonly message: string }> | null
}

/** Posts a body to an endpoint, by its name, on a ledger in memory. */
const posting = Effect.gen(function*() {
  const ledger = yield* Effect.context<Layer.Success<typeof InMemoryLedger>>()
  const routes = HttpApiBuilder.layer(WorkApi).pipe(
    Layer.provide(Work),
    Layer.provide([MutationEndpoints.layer, MutationRequestLayer, GateLayer]),
    Layer.provide(Problems.layer),
    Layer.provide([Layer.succeedContext(ledger), Lifecycle.layer(), BaseUrl.layer(baseUrl)]),
    Layer.provideMerge(NodeHttpServer.layerHttpServices),
    Layer.provideMerge(Logger.layer([]))
  )
  const { handler } = yield* Effect.acquireRelease(
    Effect.sync(() => HttpRouter.toWebHandler(routes, { disableLogger: true })),
    ({ dispose }) => Effect.promise(() => dispose())
  )
  const { access_token } = yield* issue({ scopes: [operationsRead, write] })
  let key = 0
  return (name: string, body: string) =>
    Effect.promise(async () => {
      const response = await handler(
        new Request(`${baseUrl}/v1/${name}`, {
          method: "POST",
          body,
          headers: {
            "content-type": "application/json",
            "idempotency-key": `key-${++key}`,
            authorization: `Bearer ${Redacted.value(access_token)}`
          }
        })
      )
      return { status: response.status, body: await response.json() as Problem }
    })
})

const branches = (levels: number): string => "{\"branches\":[".repeat(levels / 2) + "]}".repeat(levels / 2)

describe("An endpoint for financial requests", () => {
  const test = (name: string, effect: (post: Effect.Success<typeof posting>) => Effect.Effect<void>) =>
    it.live(name, () => Effect.flatMap(posting, effect).pipe(Effect.scoped, Effect.provide(InMemoryLedger)))

  test("accepts a body of 64 levels", (post) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* post("any", `{"work":${arrays(63)}}`)).status, 202)
      assert.strictEqual((yield* post("tree", branches(64))).status, 202)
    }))

  test("answers 422 to a deeper body of any depth, and names the member", (post) =>
    Effect.gen(function*() {
      for (const levels of [66, 1000, 4000]) {
        const { body, status } = yield* post("tree", branches(levels))
        assert.deepStrictEqual([status, body.code], [422, "invalid_request"], `${levels} levels`)
        assert.deepStrictEqual(body.fields, [{
          path: ["body", ...Array.from({ length: 32 }, () => ["branches", "0"]).flat()].join("."),
          message: "Expected at most 64 levels of arrays and objects"
        }])
      }
      for (const levels of [64, 5000, 32_000]) {
        const { body, status } = yield* post("any", `{"work":${arrays(levels)}}`)
        assert.deepStrictEqual([status, body.code], [422, "invalid_request"], `${levels} levels`)
        assert.strictEqual(body.fields![0]!.path, `body.work${".0".repeat(63)}`)
      }
    }))

  test("answers 4xx to deep text that is not JSON", (post) =>
    Effect.gen(function*() {
      for (const text of ["[".repeat(60_000), "{\"a\":".repeat(10_000), `{"work":${"[".repeat(50_000)}`]) {
        for (const name of ["any", "tree"]) {
          const { status } = yield* post(name, text)
          assert.isTrue(status >= 400 && status < 500, `${status} to ${text.slice(0, 12)}`)
        }
      }
    }))

  test("does not count brackets in strings as levels", (post) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* post("any", JSON.stringify({ work: "[{".repeat(1000) }))).status, 202)
      const wide = JSON.stringify({ work: Array.from({ length: 1000 }, () => [{}]) })
      assert.strictEqual((yield* post("any", wide)).status, 202)
    }))
})

/** The answer of the command line to one line of a batch. */
interface Answer {
  readonly line?: number
  readonly created?: boolean
  readonly error?: object
  readonly operation?: { readonly id: string }
}

describe("The command line", () => {
  it.live("names the member of a payload that is too deep, accepts the other lines of a batch, and refuses deep evidence", () =>
    Effect.gen(function*() {
      const env = { DATABASE_URL: urlOf(yield* createDatabase()) }
      const names = ["--owner", "owner", "--subject", "subject", "--client", "client"]
      const { grant_id } = yield* result<{ readonly grant_id: string }>(["grants", "issue", ...names], env)
      const accepting = ["operations", "accept", "--grant", grant_id]
      const refusal = `the payload is nested more than 64 levels deep; payload${
        ".0".repeat(64)
      }: Expected at most 64 levels of arrays and objects`
      const one = [...accepting, "--type", "payment", "--key", "deep", "--payload", "-"]
      assert.deepStrictEqual(yield* run(one, env, arrays(50_000)), {
        code: 1,
        stdout: "",
        stderr: `error: ${refusal}\n`
      })
      const line = (key: string, payload: string) => `{"type":"payment","key":"${key}","payload":${payload}}`
      const batch = [line("a", arrays(64)), line("b", arrays(100_000)), line("c", "1")].join("\n")
      const { code, stdout } = yield* run([...accepting, "--from", "-"], env, batch)
      assert.strictEqual(code, 1)
      const answers = stdout.trimEnd().split("\n").map((text) => JSON.parse(text) as Answer)
      assert.deepStrictEqual(answers.map(({ created }) => created), [true, undefined, true])
      const advancing = ["operations", "advance", answers[0]!.operation!.id, "--to", "failed", "--evidence", "-"]
      assert.deepStrictEqual(yield* run(advancing, env, arrays(50_000)), {
        code: 1,
        stdout: "",
        stderr: "error: invalid value: --evidence: Expected object\n"
      })
      assert.deepStrictEqual(answers[1], { line: 2, error: { code: "invalid_financial_request", message: refusal } })
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("A payload that cannot be encoded for its provider", () => {
  const sent = (overrides: Partial<HttpAdapterOptions>, payload: Schema.Json) =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const { submit } = yield* HttpProvider.make(optionsFor(server.url, overrides))
      const exit = yield* Effect.result(submit(operationOf(), payload))
      return { server, failure: exit._tag === "Failure" ? exit.failure : null }
    })

  it.live("is reported as not sent and as local: a repaired adapter may send it", () =>
    Effect.gen(function*() {
      const { failure, server } = yield* sent({}, parse(arrays(100_000)))
      assert.deepStrictEqual({ ...failure }, {
        _tag: "NotSent",
        reason: "the request cannot be encoded: RangeError",
        isLocal: true
      })
      assert.strictEqual(server.connections(), 0)
    }).pipe(Effect.scoped, Effect.provide(ProviderHttpClient.layer())))

  it.live("is distinguished from credentials that cannot be encoded, by the reason", () =>
    Effect.gen(function*() {
      const credentials = () => Effect.succeed({ authorization: Redacted.make("Bearer a\nb") })
      const { failure } = yield* sent({ credentials }, {})
      assert.deepStrictEqual({ ...failure }, {
        _tag: "NotSent",
        reason: "the request cannot be encoded: the value of the header authorization is invalid",
        isLocal: true
      })
    }).pipe(Effect.scoped, Effect.provide(ProviderHttpClient.layer())))

  it.effect("fails after one attempt, and frees its place for the next operation", () =>
    Effect.gen(function*() {
      const deep = new Set<string>()
      const world = yield* makeWorld({
        policy: { concurrency: 1, providerConcurrency: 1 },
        submit: (_, { id }) =>
          deep.has(id)
            ? Effect.fail(
              new NotSent({ reason: "the request cannot be encoded", isLocal: true, isPermanent: true })
            )
            : Effect.succeed(acknowledged)
      })
      const ids = yield* world.acceptMany(40)
      for (const id of ids) deep.add(id)
      const other = yield* world.acceptOne
      const accepted = yield* Clock.currentTimeMillis
      yield* world.start(SubmissionWorker.layer)
      // The test clock stands still until the attempt has begun.
      yield* until(() => world.attempts.some(({ id }) => id === other))
      assert.strictEqual(yield* Clock.currentTimeMillis, accepted)
      assert.lengthOf(world.attempts, 41)
      for (const id of ids) {
        assert.deepInclude(yield* world.show(id), {
          state: "failed",
          failure: {
            code: "request_unsendable",
            message: "The request cannot be sent to its provider, and was not sent."
          }
        })
      }
    }))

  it.effect("is distinguished from a submission that may succeed later, whose claim is returned and taken over", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        submit: (attempt) =>
          attempt < 3
            ? Effect.fail(new NotSent({ reason: "there are no credentials", isLocal: true }))
            : Effect.succeed(acknowledged)
      })
      const id = yield* world.acceptOne
      for (let attempt = 1; attempt <= 3; attempt++) {
        yield* world.work
        yield* TestClock.adjust("10 seconds")
      }
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
    }))
})
