/** A code is named unsent only if nothing was sent: clients and operators decide by it. */
import { assert, describe, it } from "@effect/vitest"
import { gatewayFailure, type GatewayFailureCode, isUnsentFailure } from "../../../src/domain/GatewayFailures.ts"

/** By code, whether a request may have left for the provider. */
const mayHaveLeft: Readonly<Record<GatewayFailureCode, boolean>> = {
  authorization_revoked: false,
  cancelled_unsent: false,
  payload_altered: false,
  payload_unreadable: false,
  provider_never_received: true,
  provider_rejected: true,
  provider_unavailable: true,
  provider_unreachable: false,
  request_unsendable: false
}

describe("The failures of the gateway", () => {
  it("are unsent if no request left, and those of adapters and operators never are", () => {
    for (const [code, left] of Object.entries(mayHaveLeft)) {
      assert.strictEqual(gatewayFailure(code as GatewayFailureCode).code, code)
      assert.strictEqual(isUnsentFailure(code), !left, code)
    }
    assert.isFalse(isUnsentFailure("insufficient_funds"))
  })
})
