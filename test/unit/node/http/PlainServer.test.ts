/**
 * The way of plain requests cannot be told from Effect's adapter: random requests, sent as bytes to two gateways on the same
 * services, get the same answers and log lines.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import * as fc from "fast-check"
import {
  AuthorizationUnavailable,
  InvalidCredential,
  InvalidDpopProof,
  NonceRequired
} from "../../../../src/domain/Credential.ts"
import {
  ClientInactive,
  type GrantIdentity,
  type GrantRefusal,
  GrantRevoked,
  GrantUnknown,
  InsufficientScope,
  operationsRead,
  type PairwiseSubject,
  ProviderDisconnected
} from "../../../../src/domain/Grant.ts"
import { Operation, type OperationId, OperationNotFound } from "../../../../src/domain/Operation.ts"
import { entityTag } from "../../../../src/server/reads/OperationResponses.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { Readiness } from "../../../../src/services/Readiness.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { compare, frozenAt, openBothWays } from "../../../fixtures/http/BothWays.ts"
import { emptyFeed, fixedIdentity, operationWith, type Reads, storeOf } from "../../../fixtures/http/HttpFixed.ts"
import { conversations } from "../../../fixtures/http/HttpReads.ts"

const internals = new Error("postgres://gateway:hunter2@10.0.0.7/ledger")

const fails = () => {
  throw internals
}

/** How the verifier treats a token of this name. */
const verdicts: Readonly<Record<string, () => ReturnType<GrantVerifier["Service"]["verify"]>>> = {
  "invalid-token": () => Effect.fail(new InvalidCredential()),
  "invalid-proof": () => Effect.fail(new InvalidDpopProof({ reason: "is missing" })),
  "nonce-required": () => Effect.fail(new NonceRequired({ nonce: "nonce-1" })),
  "verifier-unavailable": () => Effect.fail(new AuthorizationUnavailable({ cause: internals })),
  "verifier-without-store": () => Effect.fail(new StoreUnavailable({ cause: internals })),
  "verifier-dies": () => Effect.die(internals),
  "verifier-throws": fails,
  "verifier-interrupted": () => Effect.interrupt
}

/** How the store treats a grant whose token has this name. */
const outcomes: Readonly<Record<string, () => Effect.Effect<never, GrantRefusal | StoreUnavailable>>> = {
  "grant-unknown": () => Effect.fail(new GrantUnknown()),
  "grant-revoked": () => Effect.fail(new GrantRevoked({ reason: "revoked" })),
  "grant-expired": () => Effect.fail(new GrantRevoked({ reason: "expired" })),
  "client-inactive": () => Effect.fail(new ClientInactive()),
  "scope-missing": () => Effect.fail(new InsufficientScope({ required: operationsRead })),
  "provider-disconnected": () => Effect.fail(new ProviderDisconnected()),
  "store-unavailable": () => Effect.fail(new StoreUnavailable({ cause: internals })),
  "store-dies": () => Effect.die(internals),
  "store-throws": fails,
  "store-interrupted": () => Effect.interrupt
}

const names = ["good-token", "last-page", "malformed-page", ...Object.keys(verdicts), ...Object.keys(outcomes)]

/** Half of the tokens are answered in a later turn of the event loop. */
const tokens = [...names, ...Array.from(names, () => "good-token")].flatMap((name) => [name, `${name}.later`])

const inTurn = <A, E>(token: string, effect: () => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  token.endsWith(".later")
    ? Effect.flatMap(Effect.promise(() => new Promise((resolve) => setImmediate(resolve))), effect)
    : effect()

const nameOf = (token: string) => token.replace(/\.later$/, "")

const at = (age: number) => DateTime.makeUnsafe(frozenAt - age)

const idOf = (number: number) => `019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8${number}` as OperationId

const changes: ReadonlyArray<Partial<Operation>> = [
  { created_at: at(0), updated_at: at(0) },
  { state: "submitting", submission_uncertain: true, revision: 2, created_at: at(90_000), updated_at: at(60_000) },
  {
    state: "indeterminate",
    revision: 1,
    created_at: at(9e9),
    updated_at: at(9e9),
    submission_uncertain: true,
    under_review: true
  },
  { state: "succeeded", terminal: true, revision: 4, created_at: at(9e9), updated_at: at(9e9), completed_at: at(9e9) },
  {
    state: "failed",
    terminal: true,
    revision: 4,
    created_at: at(9e9),
    updated_at: at(9e9),
    completed_at: at(9e9),
    failure: { code: "declined", message: "Überweisung abgelehnt – “no funds” \u{1f4b6}" }
  },
  // Breaks the contract.
  { revision: 0, created_at: at(0), updated_at: at(0) }
]

const operations = new Map(changes.map((change, index) => {
  const id = idOf(index)
  return [id, operationWith({ id, ...change })]
}))

const sound = [...operations.values()].filter(({ revision }) => revision > 0)

const find: Reads["find"] = ({ subject }, id) =>
  inTurn(subject, (): Effect.Effect<Operation, OperationNotFound | GrantRefusal | StoreUnavailable> => {
    const outcome = outcomes[nameOf(subject)]
    if (outcome !== undefined) return outcome()
    const operation = operations.get(id)
    return operation === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(operation)
  })

const list: Reads["list"] = ({ subject }) =>
  inTurn(subject, () => {
    const name = nameOf(subject)
    const outcome = outcomes[name]
    if (outcome !== undefined) return outcome()
    if (name === "malformed-page") return Effect.succeed({ operations: [...operations.values()], next: null })
    const next = name === "last-page" ? null : { created_at: at(9e9), id: idOf(0) }
    return Effect.succeed({ operations: sound, next })
  })

/** The store knows a grant by its subject: here, that is the token. */
const identityOf = (token: string): GrantIdentity => ({ ...fixedIdentity, subject: token as PairwiseSubject })

const verify: GrantVerifier["Service"]["verify"] = ({ proof, token }) => {
  const value = Redacted.value(token)
  if (!tokens.includes(value) || proof !== null) return Effect.fail(new InvalidCredential())
  return inTurn(value, () => verdicts[nameOf(value)]?.() ?? Effect.succeed(identityOf(value)))
}

const Services = Layer.mergeAll(
  Layer.succeed(OperationStore, storeOf({ find, list })),
  emptyFeed,
  Layer.succeed(GrantVerifier, { verify }),
  Readiness.layerAlways
)

const scene = {
  tokens,
  ids: [...operations.keys(), idOf(9), "019aa4f0-5c00-7b1e-9d2f-3a4b5c6d7e8f"],
  tags: sound.map(entityTag)
}

describe("The way of plain requests", () => {
  it.live("answers and logs as the adapter does, and frees every slot", () =>
    Effect.gen(function*() {
      const ways = yield* openBothWays(Services)
      const statuses = new Set<number>()
      const routes = new Set<boolean>()
      assert.isTrue(sound.every(Schema.is(Operation)))
      const property = fc.asyncProperty(conversations(scene), async (conversation) => {
        const { answers, taken } = await compare(ways, conversation)
        for (const { status } of answers) statuses.add(status)
        for (const isTaken of taken) routes.add(isTaken)
      })
      yield* Effect.promise(() => fc.assert(property, { numRuns: rounds(400, 10_000) }))
      // The requests were of several kinds.
      assert.includeMembers([...statuses], [200, 304, 400, 401, 403, 404, 422, 500, 503])
      assert.sameMembers([...routes], [true, false])
    }))
})
