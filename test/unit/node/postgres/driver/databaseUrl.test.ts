/**
 * `DATABASE_URL` names one host or several, as a libpq URI does. What the gateway does not support is an error, and no error
 * repeats a part of the URL.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { InvalidDatabaseUrl, readDatabaseUrl } from "../../../../../src/node/postgres/driver/databaseUrl.ts"

const problemOf = (url: string): string => {
  try {
    readDatabaseUrl(url)
  } catch (error) {
    assert.instanceOf(error, InvalidDatabaseUrl)
    return error.message
  }
  return assert.fail("the URL is valid")
}

describe("A database URL", () => {
  it("with one host is one server of any kind, unless it asks for a primary", () => {
    const url = "postgres://ada:a%40b@db.example:5433/ledger?sslmode=verify-full"
    assert.deepStrictEqual(readDatabaseUrl(url), { urls: [url], mustBePrimary: false })
    for (const target of ["read-write", "primary"]) {
      assert.deepStrictEqual(readDatabaseUrl(`${url}&target_session_attrs=${target}`), {
        urls: [url],
        mustBePrimary: true
      })
    }
  })

  it("with several hosts is a server for each, in order, each with its own port, of which it wants the primary", () => {
    assert.deepStrictEqual(readDatabaseUrl("postgresql://ada:pw@one:5433,[::1]:5434,three/ledger?sslmode=require"), {
      urls: [
        "postgresql://ada:pw@one:5433/ledger?sslmode=require",
        "postgresql://ada:pw@[::1]:5434/ledger?sslmode=require",
        "postgresql://ada:pw@three/ledger?sslmode=require"
      ],
      mustBePrimary: true
    })
    assert.isFalse(readDatabaseUrl("postgres://one,two/x?target_session_attrs=any").mustBePrimary)
  })

  it("with hosts as parameters pairs them with their ports, or with the only one", () => {
    const urlsOf = (query: string) =>
      readDatabaseUrl(`postgres://ada:pw@/x?${query}`).urls.map((url) => {
        const { password, searchParams, username } = new URL(url)
        assert.deepStrictEqual([username, password], ["ada", "pw"])
        return [searchParams.get("host"), searchParams.get("port")]
      })
    assert.deepStrictEqual(urlsOf("host=/run/a,b&port=1,2"), [["/run/a", "1"], ["b", "2"]])
    assert.deepStrictEqual(urlsOf("host=a,b&port=3"), [["a", "3"], ["b", "3"]])
    assert.deepStrictEqual(urlsOf("host=::1,b"), [["::1", null], ["b", null]])
    assert.match(problemOf("postgres://one,two/x?host=a"), /hosts in two places/)
    assert.match(problemOf("postgres:///x?host=a,b,c&port=1,2"), /another number of ports than of hosts/)
  })

  it("may have space around it, capitals in its scheme, and a fragment, as the URL of any program", () => {
    const url = "postgres://one/x?sslmode=verify-full"
    assert.deepStrictEqual(readDatabaseUrl(` ${url}\n`).urls, [url])
    assert.deepStrictEqual(readDatabaseUrl(`${url}#production`).urls, [url])
    assert.strictEqual(new URL(readDatabaseUrl("Postgres://one/x").urls[0]).protocol, "postgres:")
  })

  it("with a parameter that the gateway does not support is refused, and the error names those that it supports", () => {
    for (
      const query of ["sslrootcert=secret", "service=secret", "sslmodes=disable", "constructor=1", "password=abc&def"]
    ) {
      assert.strictEqual(
        problemOf(`postgres://one/x?${query}`),
        "the database URL has an unsupported parameter: use host, port, user, password, dbname, application_name, options, "
          + "connect_timeout, sslmode, target_session_attrs"
      )
    }
    assert.match(problemOf("postgres://one/x?sslmode=disable&sslmode=verify-full"), /sslmode more than once/)
  })

  it("with a value that the parameter does not have is refused when the process starts", () => {
    for (const query of ["sslmode=verify", "connect_timeout=1s", "port=x", "target_session_attrs=standby"]) {
      assert.strictEqual(
        problemOf(`postgres://one/x?${query}`),
        `the database URL has an invalid ${query.split("=")[0]}`
      )
    }
    for (const authority of ["one:99999", "ada:pw@", "one:port", "[::1"]) {
      assert.match(problemOf(`postgres://${authority}/x`), /has an invalid host, port, user or password/)
    }
    assert.match(problemOf("postgres://one,two/x?port=1,2"), /several ports, and no parameter host/)
  })

  it("without a scheme of PostgreSQL, or with an empty host among several, is refused", () => {
    for (const url of ["", "one", "mysql://one/x", "postgres:one/x", "host=one dbname=x"]) {
      assert.match(problemOf(url), /must be postgres:\/\/USER/)
    }
    for (const url of ["postgres://one,,two/x", "postgres://one,/x", "postgres://,one/x", "postgres://one,:5433/x"]) {
      assert.match(problemOf(url), /has an empty host/)
    }
  })

  it("is never repeated by an error, and fails with nothing else", () => {
    fc.assert(fc.property(
      fc.constantFrom("postgres://", "postgresql://", ""),
      fc.string({ unit: "grapheme" }),
      fc.constantFrom(
        "",
        "/x",
        "?host=a,b&port=1,2,3",
        "?other=",
        "?target_session_attrs=",
        "?password=a&",
        "?sslmode=",
        "?"
      ),
      (scheme, middle, end) => {
        const secret = "hunter2"
        try {
          readDatabaseUrl(`${scheme}u:${secret}@${middle}${end}${secret}`)
        } catch (error) {
          assert.instanceOf(error, InvalidDatabaseUrl)
          assert.notInclude(error.message, secret)
        }
      }
    ))
  })
})
