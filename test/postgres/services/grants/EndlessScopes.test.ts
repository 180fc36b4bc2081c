/**
 * The scopes of a grant stay bounded for any number of tokens, and so do the copies in operations. The tests run
 * against both ledgers, and try statements that bypass them. `unit/services/verification/GrantProvisioning` has a token with too many.
 */
import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { Scope, scopeLimits } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { identify, newRegistration, register } from "../../../fixtures/ledger/ExternalGrants.ts"
import { accept, conformance, fieldsOf, issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { attempt, inModes } from "../../../fixtures/postgres/RawSql.ts"

const named = (name: string) => Scope.make(name)

/** `count` scopes of `length` characters, with numbers of three digits. */
const scopesOf = (count: number, length = 4, from = 0) =>
  Array.from({ length: count }, (_, n) => named(String(from + n).padStart(3, "0").padStart(length, "s")))

/** As many characters as allowed, 4096: 32 scopes of 127 characters and 31 blanks make 4095, so one scope has 128. */
const mostCharacters = [...scopesOf(31, 127), named("s".repeat(128))]

const show = (registration: Parameters<typeof identify>[0]) =>
  Effect.flatMap(identify(registration), ({ grant_id }) => Grants.use((grants) => grants.show(grant_id)))

conformance("the scopes of a grant", (it) => {
  it.effect("may be as many and as long as the limits allow, and no more", () =>
    Effect.gen(function*() {
      assert.strictEqual(mostCharacters.join(" ").length, scopeLimits.characters)
      for (const learned_from of ["event", "token"] as const) {
        for (const scopes of [scopesOf(scopeLimits.count), mostCharacters]) {
          const registration = newRegistration({ scopes, learned_from })
          assert.deepStrictEqual((yield* register(registration)).scopes, scopes)
          const { grant_id: id } = yield* identify(registration)
          const more = { ...registration, scopes: [...scopes, named("x")] }
          assert.deepStrictEqual(fieldsOf(yield* Effect.flip(register(more))), { _tag: "ScopesExceeded", id })
          assert.deepStrictEqual((yield* show(registration)).scopes, scopes)
        }
        const unknown = newRegistration({ scopes: scopesOf(scopeLimits.count + 1), learned_from })
        const refused = yield* Effect.flip(register(unknown))
        assert.strictEqual(refused._tag, "ScopesExceeded")
        assert.include(String(refused), `at most ${scopeLimits.count} scopes, of ${scopeLimits.characters} characters`)
        assert.strictEqual((yield* Effect.flip(show(unknown)))._tag, "GrantNotFound")
      }
    }))

  it.effect("stay bounded when many tokens add scopes concurrently", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ learned_from: "token", scopes: [] })
      yield* register(registration)
      const outcomes = yield* Effect.forEach(
        Arr.range(0, 19),
        (n) =>
          register({ ...registration, scopes: scopesOf(15, 6, n * 15) }).pipe(
            // All of them lock one row, and a registration by a token does not wait for long.
            Effect.retry({ while: ({ _tag }) => _tag === "StoreUnavailable" }),
            Effect.result
          ),
        { concurrency: "unbounded" }
      )
      const failures = outcomes.flatMap((outcome) => outcome._tag === "Failure" ? [outcome.failure._tag] : [])
      assert.lengthOf(failures, 14)
      assert.deepStrictEqual([...new Set(failures)], ["ScopesExceeded"])
      const { scopes } = yield* show(registration)
      assert.lengthOf(scopes, 90)
      // A token without new scopes is accepted as before.
      assert.deepStrictEqual((yield* register({ ...registration, scopes: scopes.slice(0, 1) })).scopes, scopes)
    }))

  it.effect("beyond the limits cannot be issued by the gateway: the call is a mistake of the caller", () =>
    Effect.gen(function*() {
      for (const scopes of [scopesOf(scopeLimits.count + 1), [...mostCharacters, named("x")]]) {
        const exit = yield* Effect.exit(issue({ scopes }))
        assert.isTrue(Exit.hasDies(exit))
      }
      assert.deepStrictEqual((yield* issue({ scopes: mostCharacters })).grant.scopes, mostCharacters)
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("statements that bypass the services", (it) => {
  inModes(it, "give no grant more scopes, or one that is null", (mode) =>
    Effect.gen(function*() {
      const { grant_id } = yield* register(newRegistration({ learned_from: "token" }))
      const bad = [scopesOf(scopeLimits.count + 1), [...mostCharacters, "x"], ["s".repeat(4097)], ["a", null]]
      for (const scopes of bad) {
        const statement = "UPDATE grants SET scopes = $2 WHERE id = $1"
        assert.strictEqual(yield* attempt(mode, statement, [grant_id, scopes]), "23514")
      }
    }))

  it.effect("leave the copy of an operation equal to the scopes of its grant", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue({ scopes: mostCharacters })
      const { operation } = yield* accept(identity)
      const rows = yield* sql`SELECT scopes FROM operations WHERE id = ${operation.id}`
      assert.deepStrictEqual(rows, [{ scopes: mostCharacters }])
    }))
})
