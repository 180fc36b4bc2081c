/**
 * The sandbox with mutual TLS asks each client for a certificate, and the adapter of Open Banking UK shows its own. A wrong certificate is
 * refused at the start, or ends the connection before a request.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Logger, Redacted } from "effect"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import { makeOpenBankingUkDialect } from "../../../src/sandbox/banks/OpenBankingUkDialect.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { defaultMix } from "../../../src/sandbox/SandboxOutcome.ts"
import { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import { gatewayKeys, optionsAt, payment } from "../../fixtures/banks/openBankingUk.ts"
import { selfSigned } from "../../fixtures/http/Certificate.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

const [bank, gateway, other] = [selfSigned("bank"), selfSigned("gateway"), selfSigned("other")]
const tlsOf = ({ cert, key }: typeof bank) => ({ cert, key: Redacted.make(key) })
const operation = operationOf({ type: OperationType.make("domestic_payment") })

const startBank = Effect.map(
  Layer.build(Layer.fresh(Sandbox.layer(
    { tls: { ...tlsOf(bank), clientCa: gateway.cert }, mix: { ...defaultMix, rejected: 0 } },
    makeOpenBankingUkDialect({ clientKey: gatewayKeys.publicKey })
  ))),
  (context) => Context.get(context, Sandbox)
)

/** Pays through the adapter with its own client. Yields the exit, the receipts of the bank, and the warnings of both. */
const payWith = Effect.fnUntraced(function*(tls: OpenBankingUk.TransportOptions) {
  const warnings: Array<unknown> = []
  const pay = Effect.gen(function*() {
    const { record, url } = yield* startBank
    const options = optionsAt(url.replace("127.0.0.1", "localhost"))
    const adapter = Context.get(yield* Layer.build(OpenBankingUk.layer({ ...options, tls })), ProviderAdapter)
    const exit = yield* Effect.exit(adapter.submit(operation, payment))
    return { exit, receipts: yield* record }
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([Logger.make(({ message }) => void warnings.push(message))])))
  return { ...yield* pay, warnings: JSON.stringify(warnings) }
})

describe("A bank with mutual TLS", () => {
  it.live("takes the payment of the certificate that it knows", () =>
    Effect.gen(function*() {
      const { exit, receipts } = yield* payWith({ ...tlsOf(gateway), ca: bank.cert })
      assert.isTrue(Exit.isSuccess(exit), String(exit))
      assert.strictEqual(receipts.length, 1)
    }))

  it.live("gets no payment of another certificate, and its log says why", () =>
    Effect.gen(function*() {
      const { exit, receipts, warnings } = yield* payWith({ ...tlsOf(other), ca: bank.cert })
      assert.include(String(exit), "NotSent: nothing was sent")
      assert.deepStrictEqual(receipts, [])
      assert.include(warnings, "Ended a connection whose client showed no certificate of the authority")
    }))

  it.effect.each(
    [
      ["a certificate that is none", { ...tlsOf(bank), cert: "none" }, "cert must be a certificate in PEM"],
      ["a key that is none", { ...tlsOf(bank), key: Redacted.make("none") }, "key must be a private key in PEM"],
      ["the key of another certificate", { ...tlsOf(bank), key: Redacted.make(other.key) }, "key is not the key of"],
      ["an authority that is none", { ...tlsOf(bank), clientCa: "none" }, "clientCa must be a certificate in PEM"]
    ] as const
  )("does not start with %s", ([, wrong, why]) =>
    Effect.gen(function*() {
      const tls = { clientCa: gateway.cert, ...wrong }
      const exit = yield* Effect.exit(Layer.build(Layer.fresh(Sandbox.layer({ tls }))))
      const sentence = Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : "it started"
      assert.include(sentence, why)
      assert.notInclude(sentence, "PRIVATE KEY")
    }))
})
