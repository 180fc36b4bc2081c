/**
 * The metrics of real processes: `serve` and `work` with admin listeners, on the real PostgreSQL. docs/operators.md lists them as a
 * scrape shows them. Alerts and dashboards are compared with that page (test/unit/metrics/Deployed.test.ts), so they name what real
 * processes export.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { once } from "node:events"
import * as net from "node:net"
import { text } from "node:stream/consumers"
import { listening, serving } from "../../fixtures/http/listening.ts"
import { documentedMetrics } from "../../fixtures/metrics/Deployed.ts"
import { type Family, scrape } from "../../fixtures/metrics/Scrape.ts"
import { scrapedProcesses } from "../../fixtures/metrics/ScrapedProcesses.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, run, serve, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { until } from "../../fixtures/until.ts"

const scrapeOf = (port: number) => Effect.promise(() => scrape(port))

/** The labels of a family, without those of a bucket. */
const labelsOf = ({ samples }: Family) =>
  [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))].filter((label) => label !== "le").toSorted()

const valuesOf = (families: ReadonlyArray<Family>, label: string) =>
  new Set(families.flatMap(({ samples }) => samples.flatMap(({ labels }) => labels[label] ?? [])))

class Scraped extends Context.Service<Scraped, Effect.Success<typeof scrapedProcesses>>()("test/Scraped") {
  static readonly layer = Layer.provide(Layer.effect(Scraped, scrapedProcesses), Platform)
}

layer(Scraped.layer, { excludeTestServices: true })("The metrics of serve and work", (it) => {
  it.effect("are those of the table in docs/operators.md, with their types, labels and texts, and no others", () =>
    Effect.gen(function*() {
      const { gateway, worker } = yield* Scraped
      const documented = documentedMetrics()
      const scraped = [...gateway.families.values(), ...worker.families.values()]
      assert.sameMembers([...documented.keys()], [...new Set(scraped.map(({ name }) => name))])
      for (const { labels, meaning, name, type } of documented.values()) {
        const families = scraped.filter((family) => family.name === name)
        const filled = families.filter(({ samples }) => samples.length > 0)
        assert.isNotEmpty(filled, name)
        for (const family of filled) assert.deepStrictEqual(labelsOf(family), [...labels.keys()].toSorted(), name)
        for (const family of families) assert.deepStrictEqual([family.type, family.help], [type, meaning], name)
        for (const [label, values] of labels) {
          if (values !== null) assert.includeMembers([...values], [...valuesOf(families, label)], `${label} of ${name}`)
        }
      }
    }))

  it.effect("count each thing once in a scenario, and tell nothing of a person or a request", () =>
    Effect.gen(function*() {
      const { gateway, secrets, statuses, worker } = yield* Scraped
      assert.deepStrictEqual(statuses, [200, 200, 401, 401, 200])
      for (const secret of secrets) {
        assert.notInclude(gateway.text, secret)
        assert.notInclude(worker.text, secret)
      }
      assert.strictEqual(gateway.total("gateway_http_requests_total", { status: "401", code: "invalid_token" }), 1)
      assert.strictEqual(gateway.total("gateway_verifications_total", { outcome: "refused" }), 1)
      assert.strictEqual(worker.total("gateway_claims_total", { provider: "demo-bank" }), 1)
      assert.strictEqual(worker.total("gateway_sends_total", { provider: "demo-bank" }), 1)
      assert.isAbove(gateway.total("gateway_feed_reads_total", { outcome: "ok" }), 0)
      for (const { total } of [gateway, worker]) {
        assert.strictEqual(total("gateway_ledger_figures_up"), 1)
        assert.strictEqual(total("gateway_operations_held", { provider: "other-bank" }), 1)
        assert.strictEqual(total("gateway_operations_under_review"), 1)
        assert.strictEqual(total("gateway_workers_seen"), 1)
      }
    }))
})

describe("The metrics of a process", () => {
  it.live("are on the admin listener alone, also while the public one closes connections beyond its limit, which is logged", () =>
    Effect.gen(function*() {
      const [port, admin] = yield* Effect.all([freePort, freePort])
      const env = { DATABASE_URL: urlOf(yield* createDatabase()), PORT: String(port), ADMIN_PORT: String(admin) }
      const { output } = yield* serve([], { ...env, MAX_CONNECTIONS: "1" })
      assert.include(output.stderr, `"admin_url":"http://127.0.0.1:${admin}"`)
      assert.strictEqual((yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/metrics`))).status, 404)
      const [first, second] = [net.connect(port, "127.0.0.1"), net.connect(port, "127.0.0.1")]
      yield* Effect.promise(() => once(second.resume().on("error", () => {}), "close"))
      const { total } = yield* scrapeOf(admin)
      assert.isAtLeast(total("gateway_http_connections_dropped_total"), 1)
      yield* until(() => output.stderr.includes("\"max_connections\":1"))
      assert.include(output.stderr, "Raise MAX_CONNECTIONS")
      first.destroy()
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("show within seconds that the database does not answer, and no figures of the past", () =>
    Effect.gen(function*() {
      const silent = yield* listening(net.createServer())
      const [port, admin] = yield* Effect.all([freePort, freePort])
      const env = {
        DATABASE_URL: `postgres://gateway@127.0.0.1:${silent.port}/gateway`,
        PORT: String(port),
        ADMIN_PORT: String(admin)
      }
      yield* serve(["--no-migrate"], env)
      const { find, total } = yield* scrapeOf(admin)
      assert.deepStrictEqual(find("gateway_ledger_figures_up").map(({ value }) => value), [0])
      assert.isAtLeast(total("gateway_ledger_figures_duration_seconds"), 2)
      assert.isBelow(total("gateway_ledger_figures_duration_seconds"), 60)
      assert.isEmpty([...find("gateway_operations"), ...find("gateway_workers_seen")])
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("go to the receiver of OTEL_EXPORTER_OTLP_ENDPOINT, also without an admin listener", () =>
    Effect.gen(function*() {
      const bodies: Array<string> = []
      const endpoint = yield* serving(async (request, response) => {
        const body = await text(request)
        if (request.url === "/v1/metrics") bodies.push(body)
        response.end("{}")
      })
      const port = yield* freePort
      const env = { DATABASE_URL: urlOf(yield* createDatabase()), PORT: String(port) }
      const { stop } = yield* serve([], { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
      yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/healthz`))
      // The last export is on the way out.
      assert.strictEqual(yield* stop("SIGTERM"), 0)
      const metrics = bodies.flatMap((body) =>
        (JSON.parse(body) as Otlp).resourceMetrics.flatMap(({ scopeMetrics }) =>
          scopeMetrics.flatMap(({ metrics }) => metrics)
        )
      )
      const counted = metrics.findLast(({ name }) => name === "gateway_http_requests_total")
      assert.isTrue(counted?.sum?.isMonotonic)
      assert.deepInclude(counted.sum.dataPoints.flatMap(({ attributes }) => attributes), {
        key: "route",
        value: { stringValue: "/healthz" }
      })
      assert.isDefined(metrics.find(({ name }) => name === "gateway_ledger_figures_up"))
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

interface Otlp {
  readonly resourceMetrics: ReadonlyArray<{
    readonly scopeMetrics: ReadonlyArray<{
      readonly metrics: ReadonlyArray<{
        readonly name: string
        readonly sum?: {
          readonly isMonotonic: boolean
          readonly dataPoints: ReadonlyArray<{ readonly attributes: ReadonlyArray<unknown> }>
        }
      }>
    }>
  }>
}

describe("The settings of the admin listener", () => {
  it.live.each<readonly [ReadonlyArray<string>, RegExp]>([
    [["--admin-port", "0"], /--admin-port: "0"\. Expected a port from 1 to 65535, in the flag or in ADMIN_PORT/],
    [["--port", "4001", "--admin-port", "4001"], /^error: ADMIN_PORT must not be PORT: /]
  ])("are refused in one line: %s", ([flags, message]) =>
    Effect.gen(function*() {
      const { code, stderr } = yield* run(["serve", ...flags], {})
      assert.strictEqual(code, 1)
      assert.match(stderr, message)
    }))

  it.live("name the port if another process uses it, and warn of a host that other machines may reach", () =>
    Effect.gen(function*() {
      const { port: taken } = yield* listening(net.createServer())
      const env = { DATABASE_URL: urlOf(yield* createDatabase()), PORT: String(yield* freePort) }
      const { code, stderr } = yield* run(["serve", "--admin-port", String(taken)], env)
      assert.strictEqual(code, 1)
      assert.match(
        stderr,
        new RegExp(`error: cannot listen on 127\\.0\\.0\\.1:${taken}: another process .* ADMIN_PORT`)
      )
      const admin = String(yield* freePort)
      const { output } = yield* serve(["--admin-host", "0.0.0.0", "--admin-port", admin], env)
      assert.include(output.stderr, "/metrics asks for no credential")
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
