/**
 * Alerts and dashboards name metrics of docs/operators.md, and each alert says what to do, and has a test. `npm run prometheus:check` runs
 * the alerts, and test/system/metrics/Metrics.test.ts compares the page with running processes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { anchorsOf } from "../../fixtures/Markdown.ts"
import { alerts, dashboards, documentedMetrics } from "../../fixtures/metrics/Deployed.ts"

const documented = documentedMetrics()

/** What alerts and panels ask Prometheus for, and the variables of dashboards. */
const queries = [
  ...alerts().map(({ expr }) => expr),
  ...dashboards.flatMap(([, { panels, templating }]) => [
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...templating.list.flatMap(({ definition = "" }) => definition)
  ])
]

describe("Alerts and dashboards", () => {
  it("name only metrics that exist", () => {
    const names = new Set(queries.flatMap((expr) => expr.match(/\b(?:gateway|nodejs|process)_\w+/g) ?? []))
    assert.isAbove(names.size, 30)
    const exists = (name: string) =>
      documented.has(name) || documented.get(name.replace(/_bucket$/, ""))?.type === "histogram"
    assert.deepStrictEqual([...names].filter((name) => !exists(name)), [])
  })
})

describe("Alerts", () => {
  const tests = fs.readFileSync("deploy/prometheus/alerts.test.yml", "utf8")

  it.each(alerts().map((alert) => [alert.alert, alert] as const))(
    "%s says what to do, and has tests",
    (name, alert) => {
      assert.isNotEmpty(alert.annotations.action)
      for (const [, page = "", anchor = ""] of alert.annotations.action.matchAll(/(docs\/\w+\.md)#([\w-]+)/g)) {
        assert.include(anchorsOf(page), anchor)
      }
      assert.include(tests, `alertname="${name}"`)
    }
  )
})

describe.each(dashboards)("The dashboard %s", (_, { id, panels, uid }) => {
  it("can be imported anywhere: it has no id, and its data source is a variable", () => {
    assert.deepStrictEqual({ id, uid }, { id: null, uid: null })
    const used = panels.flatMap(({ datasource, targets = [] }) =>
      [datasource, ...targets.map((target) => target.datasource)].flatMap((source) => source?.uid ?? [])
    )
    assert.deepStrictEqual([...new Set(used)], ["${datasource}"])
  })
})
