/**
 * The adapter for banks of the Open Banking standard believes only answers with the bank's signature, and signs what it sends. The tests
 * change one claim of a good signature at a time.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import * as OpenBankingUk from "../../../src/banks/OpenBankingUk.ts"
import { answering, nowhere, startAdapter } from "../../fixtures/banks/BankClient.ts"
import {
  gatewayKeys,
  openBankingClaims,
  operation,
  optionsAt,
  otherRequests,
  payment,
  paymentBody,
  read,
  signatureOf,
  startWith,
  submitted
} from "../../fixtures/banks/openBankingUk.ts"

describe("A signature", () => {
  const body = paymentBody("ACSC")
  const text = JSON.stringify(body)
  const other = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
  const claims = (more: object) => signatureOf(text, more)

  it.effect.each<[name: string, signature: string | undefined]>([
    ["that is missing", undefined],
    ["that is none", "e30"],
    ["of another body", signatureOf("{}")],
    ["by another key", signatureOf(text, {}, other)],
    ["by an unknown key", claims({ kid: "key-9" })],
    ["of another party", claims({ "http://openbanking.org.uk/iss": "another-bank" })],
    ["of another trust anchor", claims({ "http://openbanking.org.uk/tan": "example.com" })],
    ["from the future", claims({ "http://openbanking.org.uk/iat": 3600 })],
    ["with a critical claim of unknown meaning", claims({ crit: [...openBankingClaims(0).crit, "exp"], exp: 1 })],
    ["without critical claims that bind it", claims({ alg: "RS256" })],
    ["for another type", claims({ typ: "JWT" })]
  ])("%s: the answer proves nothing", ([, signature]) =>
    Effect.gen(function*() {
      const headers = {
        "x-fapi-interaction-id": operation.id,
        ...signature === undefined ? {} : { "x-jws-signature": signature }
      }
      const said = yield* submitted({ status: 201, headers, body })
      assert.deepInclude(said, { _tag: "Uncertain", isUndeclared: true })
      assert.match("reason" in said ? said.reason! : "", /status 201, with(?:out)? a .*signature/)
      assert.deepInclude(yield* read({ status: 200, headers, body }), { _tag: "NotProven", reason: "unclear" })
    }))

  it.effect.each<[seconds: number, read: string]>([
    [300, "Proven"],
    [301, "NotProven"]
  ])(
    "of an answer that was kept for %d seconds counts for five minutes: the read is %s",
    ([seconds, proves]) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(seconds * 1000)
        const headers = { "x-fapi-interaction-id": operation.id, "x-jws-signature": claims({}) }
        assert.strictEqual((yield* read({ status: 200, headers, body }))._tag, proves)
      })
  )

  it.effect("of a consent: an unused one is final only once an answer from before counts no more", () =>
    Effect.gen(function*() {
      const { promises } = yield* startWith({ status: 500 })
      assert.strictEqual(Duration.toMinutes(Duration.fromInputUnsafe(promises!.notFoundIsFinalAfter!)), 10 + 5)
    }))

  it.effect("of the body as it is, with b64 false, is believed", () =>
    Effect.gen(function*() {
      const signature = claims({ b64: false, crit: ["b64", ...openBankingClaims(0).crit] })
      const headers = { "x-fapi-interaction-id": operation.id, "x-jws-signature": signature }
      assert.strictEqual((yield* submitted({ status: 201, headers, body }))._tag, "Succeeded")
    }))

  it.effect.each<[form: string, b64: false | undefined]>([["version 4.0", undefined], ["b64 false", false]])(
    "of the gateway is detached and PS256, in the form of %s",
    ([, b64]) =>
      Effect.gen(function*() {
        let seen: { readonly jws: string; readonly body: string } | undefined
        const client = answering(({ pathname }, { body, headers }) => {
          const other = otherRequests({ path: pathname })
          if (other !== undefined) return Response.json(other.body, { status: other.status })
          if (body._tag === "Uint8Array") {
            seen = { jws: headers["x-jws-signature"]!, body: new TextDecoder().decode(body.body) }
          }
          return new Response("", { status: 500 })
        })
        const options = optionsAt(nowhere)
        const signing = { ...options.signing, ...b64 === undefined ? {} : { b64 } }
        const { submit } = yield* startAdapter(OpenBankingUk.at({ ...options, signing }), client)
        yield* Effect.flip(submit(operation, payment))
        const [header, detached, signature] = seen!.jws.split(".")
        assert.strictEqual(detached, "")
        assert.deepStrictEqual(JSON.parse(Buffer.from(header!, "base64url").toString()), {
          ...openBankingClaims(0),
          kid: "key-1",
          "http://openbanking.org.uk/iss": "org-1/software-1",
          ...b64 === false ? { b64, crit: ["b64", ...openBankingClaims(0).crit] } : {}
        })
        const signedText = `${header}.${b64 === false ? seen!.body : Buffer.from(seen!.body).toString("base64url")}`
        const padding = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }
        const key = { key: gatewayKeys.publicKey, ...padding }
        assert.isTrue(crypto.verify("sha256", Buffer.from(signedText), key, Buffer.from(signature!, "base64url")))
      })
  )
})
