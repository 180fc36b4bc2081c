/**
 * The entity tag of an operation changes exactly when its body does, and a match saves the body. The tests send
 * conditional requests to a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, type Holder, issue, move } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"

const read = ({ token }: Holder, id: OperationId, ifNoneMatch?: string | Array<string>, method = "GET") =>
  Gateway.use(({ send }) =>
    send(`/v1/operations/${id}`, {
      token,
      method,
      headers: ifNoneMatch === undefined ? {} : { "if-none-match": ifNoneMatch }
    })
  )

const review = (id: OperationId, under_review: boolean) =>
  SqlClient.SqlClient.use((sql) => sql`UPDATE operations SET under_review = ${under_review} WHERE id = ${id}`)

layer(postgresGateway(), { excludeTestServices: true })("The entity tag of an operation", (it) => {
  it.effect("changes with each transition, and with each change of under_review", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      let operation = yield* accept(holder)
      const { id } = operation
      const bodies = new Map<string, string>()
      const remember = Effect.map(read(holder, id), (answer) => {
        const tag = answer.headers["etag"]!
        assert.isFalse(bodies.has(tag), `${tag} belongs to another body`)
        bodies.set(tag, answer.text)
        return tag
      })
      let known = yield* remember
      for (const state of ["submitting", "submitted", "indeterminate"] as const) {
        operation = yield* move(operation, state)
        assert.strictEqual((yield* read(holder, id, known)).status, 200)
        known = yield* remember
      }
      yield* review(id, true)
      const reviewed = yield* remember
      assert.isTrue((json(yield* read(holder, id)) as { under_review: boolean }).under_review)
      assert.strictEqual((yield* read(holder, id, known)).status, 200)
      assert.strictEqual((yield* read(holder, id, reviewed)).status, 304)
      yield* review(id, false)
      const after = yield* read(holder, id, reviewed)
      assert.strictEqual(after.status, 200)
      assert.strictEqual(after.text, bodies.get(after.headers["etag"]!))
      operation = yield* move(operation, "succeeded")
      yield* remember
    }))

  it.effect("in If-None-Match is 304 without a body: alone, in a list, as a weak tag, or as *", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const fresh = yield* read(holder, id)
      const tag = fresh.headers["etag"]!
      const matching = [
        tag,
        `W/${tag}`,
        `"other", ${tag}`,
        `${tag},"other"`,
        `"a" ,W/"b",\t${tag} , "c"`,
        `,, ${tag} ,`,
        "*",
        " * ",
        ["\"other\"", tag]
      ]
      for (const ifNoneMatch of matching) {
        for (const method of ["GET", "HEAD"]) {
          const answer = yield* read(holder, id, ifNoneMatch, method)
          assert.strictEqual(answer.status, 304, JSON.stringify(ifNoneMatch))
          assert.strictEqual(answer.text, "")
          for (const name of ["etag", "cache-control", "vary", "retry-after"]) {
            assert.strictEqual(answer.headers[name], fresh.headers[name], name)
          }
          for (const name of ["content-type", "content-length"]) assert.notProperty(answer.headers, name)
        }
      }
    }))

  it.effect("in If-None-Match is 200 if it is another tag or not a tag", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const tag = (yield* read(holder, id)).headers["etag"]!
      const bare = tag.slice(1, -1)
      const others = [
        "\"other\"",
        bare,
        `'${bare}'`,
        `"${bare}`,
        `"x${bare}"`,
        `"${bare} "`,
        "**",
        "\"*\"",
        "",
        ",",
        "W/"
      ]
      for (const ifNoneMatch of others) {
        const answer = yield* read(holder, id, ifNoneMatch)
        assert.strictEqual(answer.status, 200, ifNoneMatch)
        assert.notStrictEqual(answer.text, "")
      }
    }))

  it.effect("does not bypass a check: a caller that may not read is refused", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const stranger = yield* issue()
      assertProblemOf(yield* read(stranger, id, "*"), "operation_not_found")
      const target = `/v1/operations/${id}`
      assertProblemOf(yield* send(target, { headers: { "if-none-match": "*" } }), "missing_credentials")
      assertProblemOf(
        yield* send(`${target}?x=1`, { token: holder.token, headers: { "if-none-match": "*" } }),
        "invalid_request"
      )
      assertProblemOf(
        yield* send(target, { token: holder.token, headers: { "if-none-match": "*", accept: "text/html" } }),
        "not_acceptable"
      )
    }))

  it.effect("is absent from lists, which are always sent in full", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      yield* accept(holder)
      const answer = yield* send("/v1/operations", { token: holder.token, headers: { "if-none-match": "*" } })
      assert.strictEqual(answer.status, 200)
      assert.notProperty(answer.headers, "etag")
    }))
})
