/**
 * No owner and no client takes the questions of others, and each operation that waits is asked about once. The owners of these tests have no
 * provider: a question begins where the gateway looks for the name of the owner there.
 */
import { assert, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Redacted, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { CibaApprovals, type CibaOptions } from "../../../src/ciba/CibaApprovals.ts"
import type { Approval } from "../../../src/domain/Approval.ts"
import type { Terms } from "../../../src/domain/Terms.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { generateKey } from "../../fixtures/authorization/Keys.ts"
import { InMemoryLedger, issue, newClient, newKey, unique } from "../../fixtures/ledger/Ledger.ts"

const details = [{
  type: "financial_operations" as const,
  approval: { above: [{ currency: "EUR", amount: "0" }] }
}]

const newOwner = (client_id = newClient()) =>
  issue({ client_id, authorization_details: details, expires_in: Duration.days(1) })

const payeeOf = ({ terms }: Approval) => (terms as Terms).payee

/** Accepts operations that wait, and yields the payees of all of this owner, the oldest first. */
const wait = Effect.fnUntraced(function*({ grant, identity }: Effect.Success<ReturnType<typeof newOwner>>, count = 1) {
  const { resource_owner } = grant
  yield* OperationLedger.use((ledger) =>
    ledger.acceptAll(
      identity,
      Array.from({ length: count }, () => ({
        type: "payment",
        key: newKey(),
        payload: null,
        terms: { amount: "70.00", currency: "EUR", payee: unique(resource_owner) }
      }))
    )
  )
  const approvals = yield* Approvals.use(({ pending }) => pending({ resource_owner, limit: 1000 }))
  return approvals.map(payeeOf)
})

/** Lets five seconds pass, and all that follows of them. */
const look = Effect.andThen(
  TestClock.adjust("5 seconds"),
  Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
)

/** Asks the owners, whom `hintOf` names. Yields the payees of the operations that they were asked about, as they come. */
const askedBy = Effect.fnUntraced(function*(hintOf: CibaOptions["hintOf"]) {
  const asked: Array<string> = []
  const key = yield* Effect.promise(() => generateKey("ES256"))
  const built = yield* Layer.build(CibaApprovals.layer({
    issuer: "https://login.example.com",
    client: { method: "private_key_jwt", clientId: "gateway", key: Redacted.make(key) },
    bindingMessage: ({ payee }) => {
      asked.push(payee)
      return payee
    },
    hintOf,
    ownerOf: () => Effect.succeed(null)
  }))
  yield* Effect.forkScoped(Context.get(built, CibaApprovals).askPending)
  yield* look
  return asked
})

/** The question waits for its answer, and none comes. */
const silent = () => Effect.never

/** The question ends at once, without a decision. */
const unknown = () => Effect.succeed(null)

const test = (name: string, effect: Effect.Effect<void, unknown, Layer.Success<typeof InMemoryLedger> | Scope.Scope>) =>
  it.effect(name, () => Effect.orDie(Effect.scoped(Effect.provide(effect, Layer.fresh(InMemoryLedger)))))

test(
  "an owner is asked five questions at a time, about the oldest operations, and stops no other owner, however many wait",
  Effect.gen(function*() {
    const [quiet, other] = [yield* newOwner(), yield* newOwner()]
    const all = yield* wait(quiet, 1000)
    yield* wait(quiet, 100)
    const [first] = yield* wait(other)
    const asked = yield* askedBy(silent)
    assert.sameMembers(asked, [...all.slice(0, 5), first!])
    const [, second] = yield* wait(other)
    yield* look
    assert.deepStrictEqual(asked.slice(6), [second])
  })
)

test(
  "an owner is asked about each operation once, also behind others that were not decided",
  Effect.gen(function*() {
    const owner = yield* newOwner()
    const all = yield* wait(owner, 47)
    const asked = yield* askedBy(unknown)
    for (let n = 0; n < 14; n++) yield* look
    assert.deepStrictEqual(asked, all)
    const later = yield* wait(owner)
    for (let n = 0; n < 7; n++) yield* look
    assert.deepStrictEqual(asked, later)
  })
)

test(
  "owners are asked however many there are",
  Effect.gen(function*() {
    const all = (yield* Effect.forEach(Array.from({ length: 250 }), () =>
      Effect.flatMap(newOwner(), (owner) => wait(owner))))
      .flat()
    const asked = yield* askedBy(unknown)
    yield* look
    yield* look
    assert.sameMembers(asked, all)
  })
)

test(
  "a client whose owners do not answer stops no other client, and its few owners no other owner of it",
  Effect.gen(function*() {
    const client = newClient()
    const askedOf = Effect.fnUntraced(function*(owners: number) {
      yield* Effect.replicateEffect(Effect.flatMap(newOwner(client), (owner) => wait(owner, 5)), owners)
    })
    yield* askedOf(30)
    const asked = yield* askedBy(silent)
    for (let n = 0; n < 5; n++) yield* look
    assert.isBelow(asked.length, 100)
    const [next] = yield* wait(yield* newOwner(client), 5)
    yield* look
    assert.include(asked, next)
    yield* askedOf(100)
    for (let n = 0; n < 5; n++) yield* look
    assert.strictEqual(asked.length, 100)
    const [foreign] = yield* wait(yield* newOwner())
    yield* look
    assert.include(asked, foreign)
  })
)

test(
  "an owner who could not be asked is asked again",
  Effect.gen(function*() {
    const approvals = yield* Approvals
    let failures = 2
    const find: typeof approvals.find = (id) =>
      Effect.suspend(() =>
        failures-- > 0 ? Effect.fail(new StoreUnavailable({ cause: new Error("down") })) : approvals.find(id)
      )
    const [payee] = yield* wait(yield* newOwner())
    const asked = yield* Effect.provideService(askedBy(unknown), Approvals, { ...approvals, find })
    assert.isEmpty(asked)
    for (let n = 0; n < 4; n++) yield* look
    assert.deepStrictEqual(asked, [payee])
  })
)
