/** The one-time link opens one session, within 15 minutes, and its token appears nowhere but on the terminal. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, type Tracer } from "effect"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import { ConsoleScene } from "../../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../../fixtures/console/ConsoleServer.ts"
import { type Answer, exchange, signIn, Visitor } from "../../../../fixtures/console/Visitor.ts"
import { Observer } from "../../../../fixtures/http/HttpObserver.ts"

const Served = Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer)

const test = (rule: string, body: () => Effect.Effect<void, never, ConsoleServer | Observer>) =>
  it.effect(rule, () => Effect.provide(body(), Served))

const isSignedIn = ({ headers, text }: Answer) =>
  headers["set-cookie"] !== undefined && text.includes("You are signed in as olivia.")

/** All that a value holds, as text. */
const shown = (value: unknown) => inspect(value, { depth: 20, maxArrayLength: Infinity, maxStringLength: Infinity })

/** Why a span failed, as exporters show it. The value of one that succeeded is not exported. */
const failureOf = (status: Tracer.SpanStatus) =>
  status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : null

const links = (printed: ReadonlyArray<string>) => printed.filter((line) => line.startsWith("Console: "))

describe("the one-time link", () => {
  test("is printed once at the start, and begins a session of the operator", () =>
    Effect.gen(function*() {
      const { link, port, printed } = yield* ConsoleServer
      assert.strictEqual(printed.length, 1)
      assert.match(link(), new RegExp(`^http://127\\.0\\.0\\.1:${port}/console/login\\?token=[A-Za-z0-9_-]{43}$`))
      const visitor = new Visitor(port)
      const answer = yield* visitor.open(link())
      assert.isTrue(isSignedIn(answer))
      assert.include(answer.text, "<meta http-equiv=\"refresh\" content=\"0;url=/console\">")
      const session = yield* visitor.send("/console/api/session")
      assert.deepInclude(JSON.parse(session.text), { operator: "olivia", version: "0.0.0-test" })
    }))

  test("works once", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const used = link()
      assert.isTrue(isSignedIn(yield* new Visitor(port).open(used)))
      const second = yield* new Visitor(port).open(used)
      assert.deepStrictEqual([second.status, second.headers["set-cookie"]], [403, undefined])
    }))

  test("opened twice at the same time begins exactly one session", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const opened = link()
      const answers = yield* Effect.all(Array.from({ length: 8 }, () => new Visitor(port).open(opened)), {
        concurrency: "unbounded"
      })
      assert.strictEqual(answers.filter(isSignedIn).length, 1)
    }))

  test("expires after 15 minutes", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      yield* TestClock.adjust("15 minutes")
      assert.strictEqual((yield* new Visitor(port).open(link())).status, 403)
    }))

  test("cannot be guessed: other tokens begin no session, and leave the link as it is", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const [base = "", token = ""] = link().split("token=")
      const guesses = ["", token.slice(1), `${token}A`, token.toLowerCase(), `${token}&token=${token}`]
      for (const guess of guesses) {
        const answer = yield* new Visitor(port).open(`${base}token=${guess}`)
        assert.deepStrictEqual([answer.status, answer.headers["set-cookie"]], [403, undefined], guess)
      }
      assert.isTrue(isSignedIn(yield* new Visitor(port).open(link())))
    }))

  test("is not used up by HEAD, by other methods, and by browsers that load it ahead", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const { pathname, search } = new URL(link())
      const visitor = new Visitor(port)
      for (const method of ["HEAD", "POST", "OPTIONS"]) {
        assert.isUndefined((yield* visitor.send(pathname + search, { method })).headers["set-cookie"], method)
      }
      const ahead = yield* visitor.send(pathname + search, { headers: { "sec-purpose": "prefetch;prerender" } })
      assert.deepStrictEqual([ahead.status, ahead.headers["set-cookie"]], [503, undefined])
      assert.isTrue(isSignedIn(yield* visitor.open(link())))
    }))

  test("is printed anew for a visitor without a session after it was used or has expired, at most once a minute", () =>
    Effect.gen(function*() {
      const { link, port, printed } = yield* ConsoleServer
      const visit = new Visitor(port).send("/console")
      yield* visit
      yield* TestClock.adjust("5 minutes")
      yield* visit
      assert.strictEqual(links(printed).length, 1, "the first one can still be used")
      const first = link()
      yield* new Visitor(port).open(first)
      yield* visit
      yield* visit
      assert.strictEqual(links(printed).length, 2)
      yield* new Visitor(port).open(link())
      yield* visit
      assert.strictEqual(links(printed).length, 2, "within the same minute")
      yield* TestClock.adjust("60 seconds")
      yield* visit
      assert.strictEqual(links(printed).length, 3)
      yield* TestClock.adjust("15 minutes")
      yield* visit
      assert.strictEqual(links(printed).length, 4)
      assert.strictEqual(new Set(printed).size, 4)
      assert.isTrue(isSignedIn(yield* new Visitor(port).open(link())))
      assert.strictEqual((yield* new Visitor(port).open(first)).status, 403)
    }))

  test("is not printed because of a visitor with a session", () =>
    Effect.gen(function*() {
      const { link, port, printed } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      yield* TestClock.adjust("30 minutes")
      assert.include((yield* visitor.send("/console")).text, "<title>Console</title>")
      assert.strictEqual(printed.length, 1)
    }))

  test("begins a session with a new id, and ends the one that the browser had: an id that an attacker set gets no session", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const visitor = yield* signIn(port, link())
      const [[name, before] = ["", ""]] = [...visitor.cookies]
      yield* TestClock.adjust("1 minute")
      yield* new Visitor(port).send("/console")
      yield* visitor.open(link())
      assert.notStrictEqual(visitor.cookies.get(name), before)
      assert.strictEqual((yield* visitor.send("/console/api/session")).status, 200)
      const attacker = new Visitor(port)
      attacker.cookies.set(name, before)
      assert.strictEqual((yield* attacker.send("/console/api/session")).status, 401)
    }))

  test("leaves no trace of its token and of the session in any log line, span or other response", () =>
    Effect.gen(function*() {
      const { link, port } = yield* ConsoleServer
      const { lines, spans } = yield* Observer
      const opened = link()
      const token = new URL(opened).searchParams.get("token")!
      const visitor = new Visitor(port)
      const answers = [yield* visitor.open(opened), yield* visitor.open(opened)]
      const cookie = [...visitor.cookies.values()][0]!
      yield* visitor.readToken
      for (const path of ["/console", "/console/api/session", "/console/api/operations", "/", "/metrics", "/nothing"]) {
        answers.push(yield* visitor.send(path))
      }
      // A wrong Host, and a broken target, which the server reports.
      answers.push(yield* exchange(port, `/console/login?token=${token}`, { headers: { host: "example.com" } }))
      answers.push(yield* visitor.send(`/console/%ff?token=${token}`))
      const told = shown([
        answers.map(({ headers, text }) => [{ ...headers, "set-cookie": undefined }, text]),
        lines,
        spans.map(({ attributes, events, name, status }) => [name, attributes, events, failureOf(status)])
      ])
      assert.isAbove(spans.length, 5)
      assert.isTrue(lines.some(({ message }) => String(message) === "Operator signed in"))
      for (const secret of [token, cookie]) assert.notInclude(told, secret)
      assert.notInclude(shown(lines), visitor.csrfToken)
    }))
})
