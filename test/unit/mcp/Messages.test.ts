/** Errors of Effect's RPC server reach a client without members that JSON-RPC does not have. */
import { assert, describe, it } from "@effect/vitest"
import type { FromServerEncoded } from "effect/rpc/RpcMessage"
import { fromRpc, readMessage } from "../../../src/mcp/JsonRpc.ts"

const failed = (cause: ReadonlyArray<unknown>) =>
  fromRpc({ _tag: "Exit", requestId: 7, exit: { _tag: "Failure", cause } } as unknown as FromServerEncoded)

describe("errors of the RPC server", () => {
  it("have code, message and data alone", () => {
    const error = { _tag: "InvalidParams", code: -32_602, message: "wrong", data: { at: 1 }, stack: "at secret.ts" }
    assert.deepStrictEqual(failed([{ _tag: "Fail", error }]), {
      jsonrpc: "2.0",
      id: 7,
      error: { code: -32_602, message: "wrong", data: { at: 1 } }
    })
  })

  it("tell nothing of a defect or of an error of another form", () => {
    const internal = { jsonrpc: "2.0", id: 7, error: { code: -32_603, message: "Internal error" } }
    for (
      const cause of [
        [],
        [{ _tag: "Die", defect: "secret" }],
        [{ _tag: "Interrupt", fiberId: 1 }],
        [{ _tag: "Fail", error: "secret" }],
        [{ _tag: "Fail", error: { code: "1", message: "secret" } }]
      ]
    ) assert.deepStrictEqual(failed(cause), internal as never)
  })
})

it.each<[id: unknown, isId: boolean]>([
  [1, true],
  [-1, true],
  ["1", true],
  ["", true],
  [1.5, false],
  [2 ** 53, false],
  [null, false],
  [true, false],
  [{}, false]
])("a request may have the id %j: %s", (id, isId) => {
  const { message, refusal } = readMessage({ jsonrpc: "2.0", id, method: "ping" })
  assert.strictEqual(message !== undefined, isId)
  if (!isId) assert.deepInclude(refusal, { id: null })
})
