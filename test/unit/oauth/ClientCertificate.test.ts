/**
 * The certificate that a proxy forwards is read from its header, or ignored when it is malformed. The tests try both
 * encodings, and arbitrary text by property.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { createHash, X509Certificate } from "node:crypto"
import { rootCertificates } from "node:tls"
import { readForwardedCertificate } from "../../../src/oauth/ClientCertificate.ts"
import { rounds } from "../../fixtures/Effort.ts"

const pem = rootCertificates[0]!.trimEnd() + "\n"
const der = new X509Certificate(pem).raw
const thumbprint = createHash("sha256").update(der).digest("base64url")
const base64 = der.toString("base64")

const allNull = (values: ReadonlyArray<string>) =>
  Effect.forEach(values, (value) => Effect.map(readForwardedCertificate(value), (read) => assert.isNull(read, value)))

describe("The certificate that a proxy forwards", () => {
  it.effect("is read from Client-Cert (RFC 9440), for each kind of key", () =>
    Effect.forEach(rootCertificates.slice(0, 20), (certificate) =>
      Effect.gen(function*() {
        const { raw } = new X509Certificate(certificate)
        assert.strictEqual(
          yield* readForwardedCertificate(`:${raw.toString("base64")}:`),
          createHash("sha256").update(raw).digest("base64url")
        )
      })))

  it.effect("is read from URL-encoded PEM, as nginx forwards it", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* readForwardedCertificate(encodeURIComponent(pem)), thumbprint)
      assert.strictEqual(yield* readForwardedCertificate(encodeURIComponent(pem.trimEnd())), thumbprint)
      const windows = encodeURIComponent(pem.replaceAll("\n", "\r\n"))
      assert.strictEqual(yield* readForwardedCertificate(windows), thumbprint)
    }))

  it.effect("is ignored when it is malformed", () =>
    allNull([
      "",
      ":",
      "::",
      base64,
      `:${base64}`,
      `${base64}:`,
      `:${base64}:;a=1`,
      ` :${base64}:`,
      `:${base64.slice(0, -8)}:`,
      `:${base64.replace(/\+|\//, "-")}:`,
      `:${der.toString("base64url")}:`,
      `:${Buffer.from("not a certificate").toString("base64")}:`,
      "%",
      "%zz",
      encodeURIComponent(pem).replace("CERTIFICATE", "PRIVATE%20KEY"),
      encodeURIComponent(pem.replace("-----END CERTIFICATE-----", "")),
      encodeURIComponent(`x${pem}`),
      encodeURIComponent(`${pem}x`)
    ]))

  it.effect("is ignored when there are several", () =>
    allNull([
      `:${base64}:, :${base64}:`,
      `:${base64}:,:${base64}:`,
      encodeURIComponent(pem + pem),
      `:${Buffer.concat([der, der]).toString("base64")}:`
    ]))

  it.effect("is at most 16,384 characters long", () =>
    Effect.gen(function*() {
      const sequenceOf = (length: number) => {
        const bytes = Buffer.alloc(length)
        bytes.set([0x30, 0x82, (length - 4) >> 8, (length - 4) & 0xff])
        return `:${bytes.toString("base64")}:`
      }
      assert.lengthOf(sequenceOf(12_285), 16_382)
      assert.isNotNull(yield* readForwardedCertificate(sequenceOf(12_285)))
      assert.isNull(yield* readForwardedCertificate(sequenceOf(12_288)))
    }))

  it.effect("gets another thumbprint after any change, and arbitrary text does not make the parser fail", () =>
    Effect.gen(function*() {
      for (
        const value of fc.sample(fc.string({ unit: "binary", maxLength: 300 }), { numRuns: rounds(150, 500), seed: 42 })
      ) {
        assert.isNull(yield* readForwardedCertificate(value))
      }
      for (const place of fc.sample(fc.nat(der.length - 1), { numRuns: rounds(60, 200), seed: 42 })) {
        const changed = Buffer.from(der)
        changed[place]! ^= 1
        assert.notStrictEqual(yield* readForwardedCertificate(`:${changed.toString("base64")}:`), thumbprint)
      }
    }))
})
