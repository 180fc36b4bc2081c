/**
 * The entity tag of an operation changes exactly when its body does, and a match saves the body. The tests send
 * conditional requests on both ways.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { Gateway, memoryGateway, refuses } from "../../../fixtures/http/HttpGateway.ts"
import { accept, type Holder, issue, move } from "../../../fixtures/http/HttpScene.ts"
import { json } from "../../../fixtures/http/HttpWire.ts"

const read = ({ token }: Holder, id: OperationId, ifNoneMatch?: string | Array<string>, method = "GET") =>
  Gateway.use(({ send }) =>
    send(`/v1/operations/${id}`, {
      token,
      method,
      headers: ifNoneMatch === undefined ? {} : { "if-none-match": ifNoneMatch }
    })
  )

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })("The entity tag of an operation", (it) => {
  it.effect("changes with each transition, and with each change of under_review", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
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
      yield* ledger.review(id, true)
      const reviewed = yield* remember
      assert.isTrue((json(yield* read(holder, id)) as { under_review: boolean }).under_review)
      assert.strictEqual((yield* read(holder, id, known)).status, 200)
      assert.strictEqual((yield* read(holder, id, reviewed)).status, 304)
      yield* ledger.review(id, false)
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
      const { "content-length": _length, "content-type": _type, ...kept } = fresh.headers
      for (const ifNoneMatch of matching) {
        for (const method of ["GET", "HEAD"]) {
          const { headers, status, text } = yield* read(holder, id, ifNoneMatch, method)
          assert.deepStrictEqual([status, text], [304, ""], JSON.stringify(ifNoneMatch))
          const own = { date: headers["date"]!, "x-request-id": headers["x-request-id"]! }
          assert.deepStrictEqual(headers, { ...kept, ...own })
        }
      }
    }))

  it.effect("in If-None-Match is 200 if it is another tag or not a tag", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const bare = (yield* read(holder, id)).headers["etag"]!.slice(1, -1)
      const tags = [bare, `'${bare}'`, `"${bare}`, `"x${bare}"`, `"${bare} "`]
      for (const ifNoneMatch of [...tags, "\"other\"", "**", "\"*\"", "", ",", "W/"]) {
        const answer = yield* read(holder, id, ifNoneMatch)
        assert.strictEqual(answer.status, 200, ifNoneMatch)
        assert.notStrictEqual(answer.text, "")
      }
    }))

  it.effect("does not bypass a check: a caller that may not read is refused", () =>
    Effect.gen(function*() {
      const { token, ...holder } = yield* issue()
      const { id } = yield* accept({ ...holder, token })
      const stranger = yield* issue()
      const target = `/v1/operations/${id}`
      const headers = { "if-none-match": "*" }
      yield* refuses("operation_not_found", [[target, { token: stranger.token, headers }]])
      yield* refuses("missing_credentials", [[target, { headers }]])
      yield* refuses("invalid_request", [[`${target}?x=1`, { token, headers }]])
      yield* refuses("not_acceptable", [[target, { token, headers: { ...headers, accept: "text/html" } }]])
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
