/** WITNESS: what it may be, and that a mistake in it is refused without a secret in the message. */
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { readWitnessUrl } from "../../../../src/cluster/witness/WitnessSetting.ts"
import { InvalidSetting } from "../../../../src/domain/InvalidSetting.ts"

const refusal = (url: string): string => {
  try {
    readWitnessUrl(url)
  } catch (error) {
    assert.instanceOf(error, InvalidSetting)
    return (error as InvalidSetting).message
  }
  throw new Error(`accepted: ${url}`)
}

describe("WITNESS", () => {
  it("names etcd with several hosts, a prefix, a user and files for TLS", () => {
    const address = readWitnessUrl(
      "etcds://gate%40way:p%3Ass@one:2379,[::1]:2380,two/bank/a/?cacert=/etc/ca.pem&cert=/etc/c.pem&key=/etc/k.pem\n"
    )
    assert.deepInclude(address, {
      _tag: "Etcd",
      endpoints: ["https://one:2379", "https://[::1]:2380", "https://two:2379"],
      prefix: "bank/a",
      tls: { cacert: "/etc/ca.pem", cert: "/etc/c.pem", key: "/etc/k.pem" }
    })
    assert(address._tag === "Etcd" && address.user !== null)
    assert.strictEqual(address.user.name, "gate@way")
    assert.strictEqual(Redacted.value(address.user.password), "p:ss")
  })

  it("has a default for the port", () => {
    assert.deepInclude(readWitnessUrl("etcd://host/bank"), {
      endpoints: ["http://host:2379"],
      prefix: "bank",
      user: null,
      tls: {}
    })
  })

  it("has a user without TLS on this machine alone", () => {
    assert.deepInclude(readWitnessUrl("etcd://user:secret@localhost,127.0.0.1:1,[::1]:2/bank"), {
      endpoints: ["http://localhost:2379", "http://127.0.0.1:1", "http://[::1]:2"]
    })
  })

  it("names a PostgreSQL as DATABASE_URL does", () => {
    const address = readWitnessUrl("postgres://user:secret@host:5433/witness?sslmode=verify-full")
    assert(address._tag === "Postgres")
    assert.strictEqual(Redacted.value(address.url), "postgres://user:secret@host:5433/witness?sslmode=verify-full")
  })

  it.each([
    ["redis://user:secret@host", "must be etcd://"],
    ["secret", "must be etcd://"],
    ["etcd://user:secret@host", "needs a prefix"],
    ["etcd://user:secret@host/", "needs a prefix"],
    ["etcds://user:secret@host?cacert=/secret", "needs a prefix"],
    ["etcd://user:secret@host/se%cret", "invalid prefix"],
    ["etcd://user@host", "a user and a password"],
    ["etcd://user:@host", "a user and a password"],
    ["etcd://user:se%cret@host", "percent-encode"],
    ["etcd://user:secret@ho st:1", "invalid host or port"],
    ["etcd://user:secret@host:1,,other", "invalid host or port"],
    ["etcd://user:secret@host:99999", "invalid host or port"],
    ["etcd://user:secret@host?cacert=/secret", "without TLS"],
    ["etcd://user:secret@host:2379/bank", "begin it with etcds://"],
    ["etcd://user:secret@localhost,host/bank", "begin it with etcds://"],
    ["etcds://user:secret@host?secret=1", "unsupported parameter"],
    ["etcds://user:secret@host?cert=/secret", "both of cert and key"],
    ["etcds://user:secret@host?cacert=", "empty cacert"],
    ["etcds://user:secret@host?cacert=/secret&cacert=/secret", "more than once"],
    ["postgres://user:secret@one,two/witness", "one host"],
    ["postgres://user:secret@host/witness?secret=1", "unsupported parameter"]
  ])("refuses %s, and repeats no secret", (url, reason) => {
    const message = refusal(url)
    assert.include(message, reason)
    assert.include(message, "WITNESS")
    assert.notInclude(message, "secret")
  })
})
