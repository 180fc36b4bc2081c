/** `console` and `serve --console` against PostgreSQL: what they print, what they refuse, and what they record. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { openEvents, signIn, Visitor } from "../../fixtures/console/Visitor.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, launch, result, run, type Running, urlOf } from "../../fixtures/processes/CommandLine.ts"

type Env = Readonly<Record<string, string>>

const onDatabase = <A, E, R>(body: (env: Env) => Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(createDatabase(), (database) => body({ DATABASE_URL: urlOf(database) }))).pipe(
    Effect.provide(Platform)
  )

const marker = "a-payload-that-no-person-may-see"

const isReady = ({ stderr, stdout }: Running["output"]) => /istening"/.test(stderr) && stdout.includes("Console: http")

const linkIn = ({ output }: Running) => /Console: (\S+)/.exec(output.stdout)![1]!

/** Accepts an operation whose payload has the marker, and returns its id. */
const accept = Effect.fnUntraced(function*(env: Env) {
  const grant = [
    "grants",
    "issue",
    "--owner",
    "owner",
    "--subject",
    "subject",
    "--client",
    "client",
    "--scope",
    "operations:read"
  ]
  const { grant_id } = yield* result<{ readonly grant_id: string }>([...grant, "--provider", "bank"], env)
  const request = ["--grant", grant_id, "--key", "key-1", "--type", "payment", "--payload", JSON.stringify({ marker })]
  const { operation } = yield* result<{ readonly operation: { readonly id: string } }>(
    ["operations", "accept", ...request],
    env
  )
  return operation.id
})

const refused = Effect.fnUntraced(function*(args: ReadonlyArray<string>, env: Env) {
  const { code, stderr, stdout } = yield* run(args, env)
  assert.deepStrictEqual([code, stdout], [1, ""])
  assert.match(stderr, /^(?:\{[^\n]*\n)*error: [^\n]+\n$/)
  return stderr
})

describe("the command console", () => {
  it.live("prints a link on standard output alone, performs actions under the operator's name, and shows no payload", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const id = yield* accept(env)
        const port = yield* freePort
        const running = yield* launch(
          ["console", "--port", String(port), "--operator", "olivia"],
          { ...env, LOG_LEVEL: "All" },
          isReady
        )
        const link = linkIn(running)
        const visitor = yield* signIn(port, link)
        const events = yield* openEvents(visitor)
        assert.deepStrictEqual(yield* events.next, { type: "changes", data: { operations: null } })

        const answers = []
        const reads = ["session", "overview", "operations", "find?text=key-1", `operations/${id}`]
        for (const path of reads) answers.push(yield* visitor.send(`/console/api/${path}`))
        const actions = `/console/api/operations/${id}/actions`
        answers.push(yield* visitor.post(actions, { action: "review", revision: 1, reason: "the customer called" }))
        answers.push(yield* visitor.post(actions, { action: "end_review", revision: 1, reason: null }))
        assert.deepStrictEqual(yield* events.next, {
          type: "changes",
          data: { operations: [{ id, state: "accepted", revision: 1 }] }
        })
        answers.push(yield* visitor.post(actions, { action: "cancel", revision: 1, reason: "not wanted" }))
        const detail = yield* visitor.send(`/console/api/operations/${id}`)
        answers.push(detail)
        for (const { status, text } of answers) assert.strictEqual(status, 200, text)
        const { actions: recorded, operation } = JSON.parse(detail.text)
        assert.strictEqual(operation.state, "cancelled")
        const last = { operator: "olivia", via: "console", action: "cancel", reason: "not wanted", result: "done" }
        assert.lengthOf(recorded, 3)
        assert.deepInclude(recorded[2], last)
        const late = yield* visitor.post(actions, { action: "hold", revision: 2, reason: "too late" })
        assert.strictEqual(late.status, 409, late.text)
        const [refusal] = JSON.parse((yield* visitor.send(`/console/api/operations/${id}`)).text).actions.slice(-1)
        assert.deepInclude(refusal, { operator: "olivia", action: "hold", reason: "too late" })
        assert.notStrictEqual(refusal.result, "done")
        answers.push(late, yield* visitor.send("/metrics"), yield* visitor.send("/console"))
        assert.include(answers.at(-2)!.text, "gateway_operations")

        const cookie = [...visitor.cookies.values()][0]!
        const told = [...answers.map(({ text }) => text), events.text(), running.output.stdout, running.output.stderr]
          .join()
        assert.notInclude(told, marker)
        assert.notInclude(running.output.stderr, new URL(link).searchParams.get("token")!)
        for (const secret of [cookie, visitor.csrfToken]) assert.notInclude(running.output.stderr, secret)

        // An open page does not hold up the end.
        assert.strictEqual(yield* running.stop("SIGTERM"), 0)
        while ((yield* events.next) !== null);
      })
    ))

  it.live("says what is missing: a role that may write, migrations, a free port, and an issuer for other machines", () =>
    Effect.scoped(Effect.gen(function*() {
      const { urlAs } = yield* rolesWith()
      const port = String(yield* freePort)
      const reader = { DATABASE_URL: urlAs("reader") }
      assert.include(yield* refused(["console", "--port", port], reader), "needs a database role that may write")
      const serving = ["serve", "--no-migrate", "--port", String(yield* freePort), "--admin-port", port, "--console"]
      assert.include(yield* refused(serving, reader), "needs a database role that may write")
      const writer = { DATABASE_URL: urlAs("writer") }
      assert.include(yield* refused(["console", "--host", "0.0.0.0", "--port", port], writer), "CONSOLE_OIDC_ISSUER")
      yield* launch(["console", "--port", port], writer, isReady)
      assert.include(yield* refused(["console", "--port", port], writer), "another process uses the port")
      const empty = { DATABASE_URL: urlOf(yield* createDatabase({ empty: true })) }
      const another = String(yield* freePort)
      assert.include(yield* refused(["console", "--port", another], empty), "the database lacks migrations")
    })).pipe(Effect.provide(Platform)))
})

describe("serve --console", () => {
  it.live("serves the console on the admin listener as the writer, while the API reads as the reader", () =>
    Effect.scoped(Effect.gen(function*() {
      const { urlAs } = yield* rolesWith()
      const id = yield* accept({ DATABASE_URL: urlAs("writer") })
      const [port, adminPort] = [yield* freePort, yield* freePort]
      const args = ["serve", "--no-migrate", "--port", String(port), "--admin-port", String(adminPort), "--console"]
      const env = { DATABASE_URL: urlAs("reader"), WRITER_DATABASE_URL: urlAs("writer"), OPERATOR: "oscar" }
      const running = yield* launch(args, env, isReady)
      const visitor = yield* signIn(adminPort, linkIn(running))
      const held = yield* visitor.post(`/console/api/operations/${id}/actions`, {
        action: "hold",
        revision: 1,
        reason: "case 4711"
      })
      assert.strictEqual(held.status, 200, held.text)
      assert.deepInclude(JSON.parse(held.text).actions[0], { operator: "oscar", action: "hold", result: "done" })
      assert.strictEqual((yield* new Visitor(port).send("/console")).status, 404, "never on the public listener")
    })).pipe(Effect.provide(Platform)))

  it.live("needs the admin listener", () =>
    onDatabase((env) =>
      Effect.gen(function*() {
        const port = String(yield* freePort)
        assert.include(yield* refused(["serve", "--port", port, "--console"], env), "--console needs --admin-port")
      })
    ))
})
